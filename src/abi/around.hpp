// A layer as a pair of moments: Around<Layer> fills a table whose every slot wraps the next one.
//
// A Layer derives from nothing; it has `Api next` and one template
//   R around(Call&, next, show, edit)
// called for every function, whatever it returns: next() forwards with the arguments and returns R;
// show(out) prints the arguments that are not in Call by out.field(name, value); edit(visitor)
// hands every argument that has a Role to visitor.role(Role, argument&), and what it assigns is
// what the next next() passes on. The Call still says what the caller passed. A layer that must
// answer one function by itself copies the table and replaces that slot. The lambdas are inlined: a
// layer that has nothing to do costs a branch.
#pragma once

#include <cstdint>

#include "abi/api_table.hpp"

namespace sabot::abi {

// What an argument is, with its type: a visitor has one overload of role() for each type.
enum class Role : std::uint8_t {
  kSend,      // const void*
  kRecv,      // void*
  kInOut,     // void*: input and output of the older ncclBcast
  kCount,     // size_t
  kDatatype,  // ncclDataType_t
  kRedop,     // ncclRedOp_t
  kRoot,      // int
  kPeer,      // int
};

template <typename Layer>
struct Around {
#define SABOT_SLOT(name, ret)                                                            \
  static ret name(void* self, Call* call SABOT_TAIL_PARAMS_##name) {                     \
    auto* layer = static_cast<Layer*>(self);                                             \
    return layer->template around<ret>(                                                  \
        *call,                                                                           \
        [&]() -> ret {                                                                   \
          return layer->next.table->name(layer->next.self, call SABOT_TAIL_ARGS_##name); \
        },                                                                               \
        [&](auto& sabot_out) {                                                           \
          (void)sabot_out;                                                               \
          SABOT_UNUSED_##name SABOT_SHOW_##name(sabot_out)                               \
        },                                                                               \
        [&](auto&& sabot_visitor) {                                                      \
          (void)sabot_visitor;                                                           \
          SABOT_ROLES_##name(sabot_visitor)                                              \
        });                                                                              \
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
