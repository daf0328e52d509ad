// The table is expanded from the API's list: a function without a slot does not link.
#include "comm/host_api.hpp"

#include "comm/slots/slots.hpp"

namespace sabot::comm {
namespace {

constexpr abi::ApiTable kTable = {
#define SABOT_SLOT(name, ret) &slots::name,
    SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
};

}  // namespace

abi::Api host_api(const Options& options) {
  auto* context = new Options(options);  // never freed: communicators refer to it until the end
  if (context->parameters.empty()) {
    context->parameters = {{"SABOT_TIMEOUT", std::to_string(options.timeout_ns)},
                           {"SABOT_SOCKET_IFNAME", options.interface}};
  }
  return {&kTable, context};
}

}  // namespace sabot::comm
