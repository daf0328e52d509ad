// Counting, proving and telling the firings of one injection.
#include "layer/plan/injection.hpp"

#include "scenario/explain.hpp"

namespace sabot::layer {
namespace {

std::string title_of_injection(const scenario::Scenario& scenario) {
  return scenario.name.empty() ? "the program" : title_of(scenario);
}

std::uint32_t plan_number(std::uint64_t id) {
  return static_cast<std::uint32_t>(run::kControlPlansMax + id);
}

}  // namespace

Injection::Injection(std::uint64_t id, const scenario::Scenario& scenario, run::Recorder& recorder,
                     FiredCallback callback)
    : id_(id),
      recorder_(recorder),
      callback_(callback),
      plan_(scenario, {title_of_injection(scenario), plan_number(id)}, *this, {}) {
  add_budgets(scenario, "");
}

Injection::Injection(std::uint32_t plan, const scenario::Scenario& scenario,
                     run::Recorder& recorder)
    : id_(0),
      recorder_(recorder),
      callback_(),
      plan_(scenario, {title_of_injection(scenario), plan, &recorder.control()}, *this, {}) {
  add_budgets(scenario, recorder.folder());
}

void Injection::add_budgets(const scenario::Scenario& scenario, const std::string& folder) {
  budget_.open(folder);
  for (const scenario::Fault& fault : scenario.faults) {
    budget_.add(fault.name, fault.budget);
    limited_.push_back(fault.budget > 0);
  }
}

std::uint64_t Injection::fired_count() {
  scenario::Decider& decider = plan_.decider();
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < decider.scenario().faults.size(); ++i)
    count += decider.tally(i).fired;
  return count;
}

std::string Injection::why_not() {
  scenario::Decider& decider = plan_.decider();
  std::string text;
  for (std::uint32_t i = 0; i < decider.scenario().faults.size(); ++i) {
    const scenario::FaultTally tally = decider.tally(i);
    if (tally.fired > 0) continue;
    text += (text.empty() ? "" : "\n") + scenario::explain_unfired(decider.fault(i), tally);
  }
  return text;
}

Result<Ledger::Claim> Injection::claim(std::size_t fault) {
  if (!limited_[fault]) return Claim{true, 0};
  const std::uint64_t number = SABOT_TRY(budget_.claim(fault));
  return Claim{number > 0, number};
}

Status Injection::prove(const scenario::Fault& fault, const run::JournalEntry& entry) {
  run::JournalEntry own = entry;
  own.injection = id_;
  std::string line = run::to_json_line(own);
  recorder_.count_firing();
  Status written = recorder_.journal().append_line(line);
  if (callback_.function != nullptr) tell(fault, own, line);
  return written;
}

Status Injection::note(const run::JournalEntry& entry) {
  run::JournalEntry own = entry;
  own.injection = id_;
  return recorder_.journal().append(own);
}

void Injection::tell(const scenario::Fault& fault, const run::JournalEntry& entry,
                     const std::string& line) const {
  const std::string function(entry.function);
  const std::string comm(entry.comm);
  sabot_firing_t firing{};
  firing.size = sizeof firing;
  firing.injection = id_;
  firing.fault = fault.name.c_str();
  firing.function = function.c_str();
  firing.comm_label = comm.c_str();
  firing.rank = entry.rank >= 0 ? entry.rank : entry.world_rank;
  firing.nth = entry.nth;
  firing.nth_collective = entry.nth_collective;
  firing.match = entry.match;
  firing.result = static_cast<ncclResult_t>(scenario::act_of(fault.action).result);
  firing.journal_line = line.c_str();
  callback_.function(callback_.user, &firing);
}

}  // namespace sabot::layer
