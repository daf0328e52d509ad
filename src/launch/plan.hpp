// The faults of a run: the scenario file and the lines of --fault together, checked before anything
// starts.
//
// The processes under test read the same two sources by themselves; loading them here first means
// that a mistake is a message and exit status 2 instead of a training that runs without its fault.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/snapshot.hpp"
#include "scenario/scenario.hpp"

namespace sabot::launch {

struct Plan {
  scenario::Scenario scenario;  // file and lines merged
  std::string file_text;        // of the scenario file, "" = none
  std::string line;             // the one-line faults, "" = none
};

// The error's text may have several lines: all that is wrong with the scenario.
Result<Plan> load_plan(const config::Snapshot& settings);

// The scenario in this file alone, checked; for `sabot scenario`.
Result<scenario::Scenario> load_scenario_file(const std::string& path);

}  // namespace sabot::launch
