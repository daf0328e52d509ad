// Which layers this process has, and in which order: log(fault(engine)).
//
// The log layer is outermost, so that it shows what the application sees, injected results
// included.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/snapshot.hpp"
#include "layer/fault.hpp"
#include "layer/log.hpp"
#include "run/recorder.hpp"
#include "scenario/scenario.hpp"

namespace sabot::stack {

// The scenario of this process: SABOT_SCENARIO and SABOT_FAULT together; no faults if neither is
// set.
Result<scenario::Scenario> load_scenario(const config::Snapshot& settings);

// Equal for processes that were given the same faults: counters of different plans are not merged.
std::uint64_t plan_hash(const scenario::Scenario& scenario);

class Layers {
 public:
  Layers(const config::Snapshot& settings, abi::Api engine, const scenario::Scenario& scenario,
         run::Recorder& recorder);

  abi::Api top() const { return top_; }
  bool any() const { return log_ != nullptr || fault_ != nullptr; }
  // A forked child is disarmed until it has a communicator of its own.
  void disarm() noexcept;

 private:
  abi::Api top_;
  std::unique_ptr<layer::FaultPlan> plan_;
  std::unique_ptr<layer::FaultLayer> fault_;
  std::unique_ptr<layer::LogLayer> log_;
};

}  // namespace sabot::stack
