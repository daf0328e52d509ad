// Loading and merging.
#include "launch/plan.hpp"

#include "run/text_file.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch {
namespace {

using config::KnobId;

std::string origin_of_line(const config::Snapshot& settings) {
  const config::Source source = settings.value(KnobId::kFault).source;
  return source == config::Source::kCommandLine ? "--fault" : "SABOT_FAULT";
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
    SABOT_TRY(scenario::append_faults(plan.scenario, std::move(lines), origin));
  }
  SABOT_TRY(scenario::check_decidable(plan.scenario));
  return plan;
}

}  // namespace sabot::launch
