// The seam between the fault layer, which acts, and whatever decides that it should.
//
// The product's form (armed_plan.hpp) asks a scenario's decider, claims the budget and writes the
// journal before it answers. Tests give answers by hand.
#pragma once

#include <bitset>
#include <optional>

#include "abi/api_table.hpp"

namespace sabot::layer {

struct Firing {
  ncclResult_t result;
  bool before;       // before the real call, else after it
  const char* text;  // what ncclGetLastError says; valid until this thread asks again
};

class FaultPlan {
 public:
  virtual ~FaultPlan() = default;

  // Whether any fault could fire on this function: the rest costs one test of a bit.
  bool concerns(abi::FunctionId function) const {
    return functions_[static_cast<std::size_t>(function)];
  }
  // From now on nothing concerns it: the child of a fork does not act for its parent.
  // Async-signal-safe.
  void disarm() noexcept { functions_.reset(); }
  // Called once per call that concerns() admits, at its entry. Claims and journals what it returns.
  virtual std::optional<Firing> consider(const abi::Call& call) = 0;

 protected:
  std::bitset<abi::kFunctionCount> functions_;
};

}  // namespace sabot::layer
