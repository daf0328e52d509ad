// Listing, naming, and the deadlines that contradict.
#include "drill/cases.hpp"

#include <set>

#include "base/random.hpp"
#include "base/units.hpp"
#include "scenario/print.hpp"

namespace sabot::drill {
namespace {

PlannedCase listed_case(const Listed& listed, const Plan& plan) {
  PlannedCase planned;
  planned.name = !listed.name.empty()            ? listed.name
                 : !listed.scenario.name.empty() ? listed.scenario.name
                                                 : scenario::to_line(listed.scenario.faults.at(0));
  planned.scenario = listed.scenario;
  planned.deadline_ns = listed.deadline_ns.value_or(plan.deadline_ns);
  planned.states_expectation = listed.scenario.expect.has_value();
  if (listed.scenario.expect) planned.expect = *listed.scenario.expect;
  return planned;
}

// A job that is ended at its deadline cannot be seen to finish later.
Status check_deadline(const PlannedCase& planned, const std::string& where) {
  const std::uint64_t finished_ns = planned.expect.finished_within_ns.value_or(0);
  if (finished_ns <= planned.deadline_ns) return {};
  return Error(Code::kInvalidArgument,
               where + ": case '" + planned.name + "': 'finished_within' of " +
                   format_duration_ns(finished_ns) + " is longer than the deadline of " +
                   format_duration_ns(planned.deadline_ns) +
                   ", at which the job is ended; give a longer 'deadline'");
}

class Lister {
 public:
  explicit Lister(const Plan& plan) : plan_(plan) {}

  Status add(PlannedCase planned, std::size_t line) {
    if (!planned.states_expectation && plan_.expect) {
      planned.expect = *plan_.expect;
      planned.states_expectation = true;
    }
    SABOT_TRY(check_deadline(planned, plan_.file + ":" + std::to_string(line)));
    const std::string name = planned.name;
    for (int number = 2; !names_.insert(planned.name).second; ++number)
      planned.name = name + " (" + std::to_string(number) + ")";
    list_.cases.push_back(std::move(planned));
    return {};
  }

  CaseList list_;

 private:
  const Plan& plan_;
  std::set<std::string> names_;
};

}  // namespace

Result<CaseList> cases_of(const Plan& plan, const std::vector<Calls>& calls) {
  Lister lister(plan);
  for (const Listed& listed : plan.scenarios)
    SABOT_TRY(lister.add(listed_case(listed, plan), listed.line));
  for (std::size_t i = 0; i < plan.generators.size(); ++i) {
    const Generate& wanted = plan.generators[i];
    const std::string where = plan.file + ":" + std::to_string(wanted.line);
    Generated generated = SABOT_TRY(generate(calls, wanted, mix(plan.seed, i), where));
    lister.list_.left_out += generated.left_out;
    for (PlannedCase& planned : generated.cases) {
      planned.deadline_ns = plan.deadline_ns;
      planned.scenario.seed = plan.seed;
      SABOT_TRY(lister.add(std::move(planned), wanted.line));
    }
  }
  return std::move(lister.list_);
}

std::string scenario_text(const PlannedCase& planned) {
  scenario::Scenario scenario = planned.scenario;
  if (planned.states_expectation) scenario.expect = planned.expect;
  return scenario::to_toml(scenario);
}

}  // namespace sabot::drill
