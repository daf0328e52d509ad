// The copy of Sabot that owns the stack of this process, where that is not this one.
//
// Found once, when the stack opens. What of ours it lacks, because it is older, is null.
#pragma once

#include "real/loader.hpp"
#include "sabot/fault.h"
#include "sabot/stack.h"

namespace sabot::stack {

struct Owner {
  void* (*host_function)(const char*);
  decltype(&sabot_comm_open) comm_open;
  decltype(&sabot_comm_close) comm_close;
  decltype(&sabot_call_enter) call_enter;
  decltype(&sabot_call_leave) call_leave;
  decltype(&sabot_fault_inject) fault_inject;
  decltype(&sabot_fault_withdraw) fault_withdraw;
};

// Opens the stack. Null: this copy owns it.
const Owner* owner() noexcept;

// The first loaded object of ours, if it is not this library.
const real::MappedObject* owner_among(const std::vector<real::MappedObject>& objects,
                                      real::Loader& loader);
// Leads our entries to the owner's and remembers it; once, while the stack opens.
void forward_to(const real::MappedObject& object, real::Loader& loader);

}  // namespace sabot::stack
