// Forwarding to the copy that was loaded first.
#include "stack/owner.hpp"

#include <cstddef>
#include <string>

#include "abi/names.hpp"
#include "stack/bridge.hpp"
#include "stack/entries.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

Owner forwarded{};
std::atomic<bool> is_forwarded{false};

template <typename Function>
void look_up(Function& function, const real::MappedObject& object, real::Loader& loader,
             const char* name) {
  function = reinterpret_cast<Function>(loader.symbol_in(object, name));
}

}  // namespace

const Owner* owner() noexcept {
  Stack::open();
  return is_forwarded.load() ? &forwarded : nullptr;
}

const real::MappedObject* owner_among(const std::vector<real::MappedObject>& objects,
                                      real::Loader& loader) {
  for (const real::MappedObject& object : objects) {
    if (!object.is_ours) continue;
    return object.covers(loader.ourselves()) ? nullptr : &object;
  }
  return nullptr;
}

void forward_to(const real::MappedObject& object, real::Loader& loader) {
  for (const abi::FunctionInfo& row : abi::all_functions()) {
    const std::string name = std::string("p") + row.public_name;
    void* target = loader.symbol_in(object, name.c_str());
    const auto index = static_cast<std::size_t>(row.id);
    publish(index, target != nullptr ? target : kRefusing.by_id[index]);
  }
  decltype(&sabot_stack_v1) describe = nullptr;
  look_up(describe, object, loader, "sabot_stack_v1");
  const sabot_stack_info_t* info = describe == nullptr ? nullptr : describe();
  constexpr std::size_t kSize = offsetof(sabot_stack_info_t, host_function) + sizeof(void*);
  if (info != nullptr && info->size >= kSize) forwarded.host_function = info->host_function;
  look_up(forwarded.comm_open, object, loader, "sabot_comm_open");
  look_up(forwarded.comm_close, object, loader, "sabot_comm_close");
  look_up(forwarded.call_enter, object, loader, "sabot_call_enter");
  look_up(forwarded.call_leave, object, loader, "sabot_call_leave");
  look_up(forwarded.fault_inject, object, loader, "sabot_fault_inject");
  look_up(forwarded.fault_withdraw, object, loader, "sabot_fault_withdraw");
  is_forwarded.store(true);
}

}  // namespace sabot::stack
