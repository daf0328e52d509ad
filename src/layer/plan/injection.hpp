// Faults that came while the program runs, from itself or by `sabot ctl add`: a plan of their own
// with budgets of their own.
//
// Each firing is written to the journal of the process, if it has a run folder, and then told to
// the program (sabot_fired_fn), before the fault acts. Budgets hold for this process and this
// injection; those of what was added to the run hold for the run. Who may look at it when is
// plan_list.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layer/plan/armed_plan.hpp"
#include "run/budget.hpp"
#include "sabot/fault.h"

namespace sabot::layer {

struct FiredCallback {
  sabot_fired_fn function = nullptr;  // null: nobody is told
  void* user = nullptr;
};

class Injection final : private Ledger {
 public:
  // id from 1. The recorder is that of the process and outlives the injection.
  Injection(std::uint64_t id, const scenario::Scenario& scenario, run::Recorder& recorder,
            FiredCallback callback);
  // The plan of this number that was added to the run; its id is 0.
  Injection(std::uint32_t plan, const scenario::Scenario& scenario, run::Recorder& recorder);
  ~Injection() override = default;
  Injection(const Injection&) = delete;
  Injection& operator=(const Injection&) = delete;

  std::uint64_t id() const { return id_; }
  ArmedPlan& plan() { return plan_; }
  // Firings of all its faults so far.
  std::uint64_t fired_count();
  // One line for each fault that has not fired: why; "" if all have.
  std::string why_not();

 private:
  void add_budgets(const scenario::Scenario& scenario, const std::string& folder);
  Result<Claim> claim(std::size_t fault) override;
  Status prove(const scenario::Fault& fault, const run::JournalEntry& entry) override;
  Status note(const run::JournalEntry& entry) override;
  void tell(const scenario::Fault& fault, const run::JournalEntry& entry,
            const std::string& line) const;

  const std::uint64_t id_;
  run::Recorder& recorder_;
  const FiredCallback callback_;
  run::Budget budget_;
  std::vector<bool> limited_;
  ArmedPlan plan_;
};

}  // namespace sabot::layer
