// Which layers this process has, and in which order: log(fault(engine)).
//
// The log layer is outermost, so that it shows what the application sees, injected results
// included. The fault layer is always there, as faults may be injected at any time; without any, it
// is not reached (any()). A call that is executed outside the layers goes through their two
// moments: announced() before it, concluded() after it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/snapshot.hpp"
#include "layer/fault.hpp"
#include "layer/log.hpp"
#include "layer/plan_list.hpp"
#include "run/recorder.hpp"
#include "scenario/scenario.hpp"

namespace sabot::stack {

// The scenario of this process: SABOT_SCENARIO and SABOT_FAULT together; no faults if neither is
// set.
Result<scenario::Scenario> load_scenario(const config::Snapshot& settings);
// A scenario that the program gives us while it runs, as a document or as one line.
Result<scenario::Scenario> read_injection(const config::Snapshot& settings, std::string_view text);

// Equal for processes that were given the same faults: counters of different plans are not merged.
std::uint64_t plan_hash(const scenario::Scenario& scenario);

class Layers {
 public:
  Layers(const config::Snapshot& settings, abi::Api engine, const scenario::Scenario& scenario,
         run::Recorder& recorder);

  abi::Api top() const { return top_; }
  // Whether a call has anything to meet here now.
  bool any() const { return log_ != nullptr || plans_->has_scenario() || plans_->has_injections(); }
  layer::PlanList& plans() { return *plans_; }

  std::optional<layer::Firing> announced(const abi::Call& call);
  // Returns what the application is given.
  ncclResult_t concluded(abi::Call& call, const std::optional<layer::Firing>& firing,
                         ncclResult_t result);
  // A forked child is disarmed until it has a communicator of its own.
  void disarm() noexcept;

 private:
  abi::Api top_;
  std::unique_ptr<layer::RunLedger> ledger_;
  std::unique_ptr<layer::ArmedPlan> scenario_plan_;
  std::unique_ptr<layer::PlanList> plans_;
  std::unique_ptr<layer::FaultLayer> fault_;
  std::unique_ptr<layer::LogLayer> log_;
};

}  // namespace sabot::stack
