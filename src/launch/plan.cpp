// Loading and merging.
#include "launch/plan.hpp"

#include <algorithm>

#include "run/text_file.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch {
namespace {

using config::KnobId;

std::string origin_of_line(const config::Snapshot& settings) {
  const config::Source source = settings.value(KnobId::kFault).source;
  return source == config::Source::kCommandLine ? "--fault" : "SABOT_FAULT";
}

// Budgets, journals and reports know faults by name only.
Status add_faults(scenario::Scenario& into, scenario::Scenario from, const std::string& origin) {
  for (scenario::Fault& fault : from.faults) {
    const bool taken =
        std::any_of(into.faults.begin(), into.faults.end(),
                    [&fault](const scenario::Fault& f) { return f.name == fault.name; });
    if (taken)
      return Error(Code::kInvalidArgument,
                   origin + ": the scenario file has a fault named \"" + fault.name +
                       "\" already; give this one another name, "
                       "as in 'other: AllReduce[nth=3]=error(SystemError)'");
    into.faults.push_back(std::move(fault));
  }
  if (into.faults.size() > scenario::kFaultsMax)
    return Error(
        Code::kInvalidArgument,
        origin + ": more than " + std::to_string(scenario::kFaultsMax) + " faults in one run");
  return {};
}

}  // namespace

Result<scenario::Scenario> load_scenario_file(const std::string& path) {
  const std::string text = SABOT_TRY(run::read_text_file("scenario", path));
  return scenario::parse_toml(text, path);
}

Result<Plan> load_plan(const config::Snapshot& settings) {
  Plan plan;
  if (settings.is_set(KnobId::kScenario)) {
    const std::string path(settings.get<KnobId::kScenario>());
    plan.file_text = SABOT_TRY(run::read_text_file("scenario", path));
    plan.scenario = SABOT_TRY(scenario::parse_toml(plan.file_text, path));
  }
  if (settings.is_set(KnobId::kFault)) {
    plan.line = settings.get<KnobId::kFault>();
    const std::string origin = origin_of_line(settings);
    scenario::Scenario lines = SABOT_TRY(scenario::parse_line(plan.line, origin));
    SABOT_TRY(add_faults(plan.scenario, std::move(lines), origin));
  }
  return plan;
}

}  // namespace sabot::launch
