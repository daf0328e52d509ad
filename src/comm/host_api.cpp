// The table is expanded from the API's list: a function without a slot does not link.
#include "comm/host_api.hpp"

#include <atomic>
#include <memory>

#include "comm/slots/slots.hpp"

namespace sabot::comm {
namespace {

constexpr abi::ApiTable kTable = {
#define SABOT_SLOT(name, ret) &slots::name,
    SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
};

// Never freed, since communicators refer to their options until the end; linked, so that they are
// not leaked either.
struct Context {
  Options options;
  const Context* next = nullptr;
};
std::atomic<const Context*> contexts{nullptr};

}  // namespace

abi::Api host_api(const Options& options) {
  auto context = std::make_unique<Context>(Context{options});
  if (context->options.parameters.empty()) {
    context->options.parameters = {{"SABOT_TIMEOUT", std::to_string(options.timeout_ns)},
                                   {"SABOT_SOCKET_IFNAME", options.interface}};
  }
  context->next = contexts.load();
  while (!contexts.compare_exchange_weak(context->next, context.get())) {
  }
  return {&kTable, &context.release()->options};
}

}  // namespace sabot::comm
