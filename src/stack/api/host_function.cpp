// Names to functions. Our own come from a table that is generated with the export list, so that the
// two cannot differ.
#include "stack/api/host_function.hpp"

#include <string_view>

#include "abi/names.hpp"
#include "stack/bridge.hpp"
#include "stack/owner.hpp"
#include "stack/stack.hpp"

extern "C" {
struct sabot_own_function {
  const char* name;
  void* function;
};
// entries.S; ends with a null name.
extern const sabot_own_function sabot_own_functions[];
}

namespace sabot::stack::api {
namespace {

// "ncclAllReduce" with 'p' or without; the bare name is not one.
void* find_in(const abi::FunctionTable& table, std::string_view name) {
  if (!name.starts_with("nccl")) return nullptr;
  const auto id = abi::find_function(name);
  return id ? table.by_id[static_cast<std::size_t>(*id)] : nullptr;
}

void* find_own(std::string_view name) {
  for (const sabot_own_function* row = sabot_own_functions; row->name != nullptr; ++row)
    if (name == row->name) return row->function;
  return nullptr;
}

}  // namespace

void* host_function(const char* name) noexcept {
  if (name == nullptr) return nullptr;
  if (const Owner* first = owner())
    return first->host_function == nullptr ? nullptr : first->host_function(name);
  const std::string_view text(name);
  if (text.starts_with("sabot_")) return find_own(text);
  const bool is_beneath = text.starts_with("pnccl");
  Stack* stack = Stack::current();
  const bool has_engine = stack != nullptr && stack->failure().empty();
  if (!has_engine) return find_in(kRefusing, text.substr(is_beneath ? 1 : 0));
  try {
    stack->follow();
  } catch (...) {
    return nullptr;  // no memory for the host engine's settings
  }
  return is_beneath ? find_in(kHostDirect, text.substr(1)) : find_in(kHosted, text);
}

}  // namespace sabot::stack::api
