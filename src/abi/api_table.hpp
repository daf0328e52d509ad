// The whole NCCL API as one struct of function pointers with a context, expanded from the spec.
//
// A slot is the NCCL function with two arguments in front: the context of whoever fills the table,
// and the Call that the boundary filled (null when an engine is called directly; engines never need
// it). Layers and engines have the same shape, so that a stack is tables over tables. Tables are
// immutable once published and thread-safe to call.
#pragma once

#include <type_traits>

#include "abi/api_list.hpp"
#include "abi/call.hpp"

namespace sabot::abi {

struct ApiTable {
#define SABOT_SLOT(name, ret) ret (*name)(void* self, Call* call SABOT_TAIL_PARAMS_##name);
  SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
};

// A table bound to its context; both outlive every caller.
struct Api {
  const ApiTable* table = nullptr;
  void* self = nullptr;
};

// The functions of one library as plain C pointers, in the order of FunctionId; null where it lacks
// one.
union FunctionTable {
  struct {
#define SABOT_SLOT(name, ret) ret (*name)(SABOT_PARAMS_##name);
    SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
  } call;
  void* by_id[kFunctionCount];
};
static_assert(sizeof(FunctionTable) == sizeof(void*) * kFunctionCount);

// What a function returns when it cannot be carried out at all.
template <typename R>
R refusal(ncclResult_t code, const char* text) {
  if constexpr (std::is_same_v<R, ncclResult_t>) {
    return code;
  } else if constexpr (std::is_same_v<R, const char*>) {
    return text;
  } else {
    return R();
  }
}

}  // namespace sabot::abi
