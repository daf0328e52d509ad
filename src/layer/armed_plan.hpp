// The product's FaultPlan: a scenario's decider, the run's budgets and journal.
//
// A fault that wants to fire claims its budget first, then writes its journal line, then acts: the
// line is the proof. A claim or a line that cannot be written is reported once; without its claim a
// fault does not fire, without its line it does (the job must see what the scenario says).
#pragma once

#include <memory>
#include <string>

#include "layer/fault_plan.hpp"
#include "run/recorder.hpp"
#include "scenario/decider.hpp"

namespace sabot::layer {

// scenario "nic dies", or the command line: where faults came from, for messages.
std::string title_of(const scenario::Scenario& scenario);

class ArmedPlan final : public FaultPlan {
 public:
  // The recorder was opened for this scenario's faults and outlives the plan.
  ArmedPlan(const scenario::Scenario& scenario, run::Recorder& recorder);

  std::optional<Firing> consider(const abi::Call& call) override;

 private:
  bool claim(const abi::Call& call, const scenario::Firing& firing);
  void report_once(const std::string& text);

  run::Recorder& recorder_;
  std::unique_ptr<scenario::Decider> decider_;
  std::atomic<bool> reported_{false};
};

}  // namespace sabot::layer
