// libsabot.so: the stack by LD_PRELOAD, in front of a libnccl that the program links to.
#include "stack/product.hpp"
#include "sabot/stack.h"
#include "stack/api/host_function.hpp"

namespace sabot::stack {

const Product& product() {
  static constexpr Product kProduct{"preload"};
  return kProduct;
}

}  // namespace sabot::stack

extern "C" __attribute__((visibility("default"))) const sabot_stack_info_t* sabot_stack_v1(void) {
  static constexpr sabot_stack_info_t kInfo = {sizeof(sabot_stack_info_t), SABOT_VERSION, "preload",
                                               &sabot::stack::api::host_function};
  return &kInfo;
}
