// libnccl.so.2: the stack as a complete drop-in, for programs that open or link that name.
#include "stack/product.hpp"
#include "sabot/stack.h"
#include "stack/api/host_function.hpp"

namespace sabot::stack {

const Product& product() {
  static constexpr Product kProduct{"stand-in"};
  return kProduct;
}

}  // namespace sabot::stack

extern "C" __attribute__((visibility("default"))) const sabot_stack_info_t* sabot_stack_v1(void) {
  static constexpr sabot_stack_info_t kInfo = {sizeof(sabot_stack_info_t), SABOT_VERSION,
                                               "stand-in", &sabot::stack::api::host_function};
  return &kInfo;
}
