// The product's FaultPlan: a scenario's decider, over a ledger of budgets and journal.
//
// A fault that wants to fire claims its budget first, then writes its journal line, then acts: the
// line is the proof. A claim or a line that cannot be written is reported once; without its claim a
// fault does not fire, without its line it does (the job must see what the scenario says). Where it
// turns out that it cannot act, a second line says why ("refused"). What people control while the
// job runs is read from the control page at each call that may concern a fault.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layer/plan/fault_plan.hpp"
#include "layer/plan/ledger.hpp"
#include "run/control_page.hpp"
#include "scenario/decider.hpp"

namespace sabot::layer {

// scenario "nic dies", or the command line: where faults came from, for messages.
std::string title_of(const scenario::Scenario& scenario);

struct PlanSource {
  std::string title;                // where the faults came from, for messages
  std::uint32_t number = 0;         // FaultId::plan
  run::Control* control = nullptr;  // null: nobody controls these faults
};

class ArmedPlan final : public FaultPlan {
 public:
  // tallies: one a fault, or empty (the decider keeps its own). Ledger, tallies and control outlive
  // the plan.
  ArmedPlan(const scenario::Scenario& scenario, PlanSource source, Ledger& ledger,
            std::span<scenario::FaultTally> tallies);

  void consider(const abi::Call& call, Firings& firings) override;
  void refuse(const abi::Call& call, const Firing& firing, const std::string& why) override;
  bool asks_captured() const override { return decider_->uses(scenario::Condition::kCaptured); }

  // Whether some fault would put something on a stream.
  bool acts_on_streams() const;

  std::uint32_t number() const { return source_.number; }
  scenario::Decider& decider() { return *decider_; }

 private:
  struct Prepared {
    scenario::Act act;
    std::string action;  // "error(SystemError)"
  };
  scenario::Controls controls(const abi::Call& call) const;
  bool claim(const abi::Call& call, const scenario::Firing& firing);
  run::JournalEntry entry_of(const abi::Call& call, std::uint32_t fault) const;
  void report_once(const std::string& text);

  PlanSource source_;
  Ledger& ledger_;
  std::unique_ptr<scenario::Decider> decider_;
  std::vector<Prepared> prepared_;
  std::atomic<bool> reported_{false};
  std::atomic<bool> refused_{false};
};

}  // namespace sabot::layer
