// The product's FaultPlan: a scenario's decider, over a ledger of budgets and journal.
//
// A fault that wants to fire claims its budget first, then writes its journal line, then acts: the
// line is the proof. A claim or a line that cannot be written is reported once; without its claim a
// fault does not fire, without its line it does (the job must see what the scenario says).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "layer/fault_plan.hpp"
#include "layer/ledger.hpp"
#include "scenario/decider.hpp"

namespace sabot::layer {

// scenario "nic dies", or the command line: where faults came from, for messages.
std::string title_of(const scenario::Scenario& scenario);

class ArmedPlan final : public FaultPlan {
 public:
  // title: where the faults came from, for messages. tallies: one a fault, or empty (the decider
  // keeps its own). Ledger and tallies outlive the plan.
  ArmedPlan(const scenario::Scenario& scenario, std::string title, Ledger& ledger,
            std::span<scenario::FaultTally> tallies);

  std::optional<Firing> consider(const abi::Call& call) override;
  // Counts a call on which another plan's fault fired already: nothing of this plan does.
  void pass_over(const abi::Call& call);

  const scenario::Decider& decider() const { return *decider_; }

 private:
  bool claim(const abi::Call& call, const scenario::Firing& firing);
  void report_once(const std::string& text);

  std::string title_;
  Ledger& ledger_;
  std::unique_ptr<scenario::Decider> decider_;
  std::atomic<bool> reported_{false};
};

}  // namespace sabot::layer
