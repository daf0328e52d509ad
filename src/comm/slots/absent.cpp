// What the host engine does not have: one-sided operations and NCCL's device API.
//
// Both need memory of another rank to be reached by address, by a kernel or a network card. A
// program that asks gets the name of the function and what to use instead, never a wrong answer.
// Which functions these are stands in the API spec (absent_on_host), from which the reference page
// says it too.
#include <string>

#include "comm/group.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

// report() puts the function's name in front of the text.
ncclResult_t absent(void* self, const char* function, const char* instead) {
  return refuse(
      options_of(self), function,
      Error(Code::kUnsupported, std::string("is not implemented by the host engine; ") + instead));
}

}  // namespace

#define SABOT_ABSENT(name, ret, instead)                               \
  ret name(void* self, abi::Call*, SABOT_PARAMS_##name) {              \
    SABOT_UNUSED_##name;                                               \
    return abi::refusal<ret>(absent(self, "nccl" #name, instead), ""); \
  }
SABOT_ABSENT_ON_HOST(SABOT_ABSENT)
#undef SABOT_ABSENT

}  // namespace sabot::comm::slots
