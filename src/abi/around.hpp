// A layer as a pair of moments: Around<Layer> fills a table whose every slot wraps the next one.
//
// A Layer derives from nothing; it has `Api next` and one template
//   R around(Call&, next, show)
// called for every function, whatever it returns: next() forwards with the caller's arguments and
// returns R; show(out) prints the arguments that are not in Call by out.field(name, value). A layer
// that must change one function's arguments copies the table and replaces that slot. The lambdas
// are inlined: a layer that has nothing to do costs a branch.
#pragma once

#include "abi/api_table.hpp"

namespace sabot::abi {

template <typename Layer>
struct Around {
#define SABOT_SLOT(name, ret)                                                                  \
  static ret name(void* self, Call* call SABOT_TAIL_PARAMS_##name) {                           \
    auto* layer = static_cast<Layer*>(self);                                                   \
    return layer->template around<ret>(                                                        \
        *call,                                                                                 \
        [&]() -> ret {                                                                         \
          return layer->next.table->name(layer->next.self, call SABOT_TAIL_ARGS_##name);       \
        },                                                                                     \
        [&](auto& sabot_out) {                                                                 \
          (void)sabot_out;                                                                     \
          SABOT_UNUSED_##name SABOT_SHOW_##name(sabot_out)                                     \
        });                                                                                    \
  }
  SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT

  static constexpr ApiTable kTable = {
#define SABOT_SLOT(name, ret) &Around::name,
      SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
  };
};

}  // namespace sabot::abi
