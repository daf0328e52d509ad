// Which conditions can be decided where a scenario is to run. The grammar knows more, so that a
// file is never misread; a fault that waits for what nobody can do would pass for the wrong reason,
// so it is refused before the job starts.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

// Who can turn switches and arm faults while the job runs: `sabot ctl` where there is a run, nobody
// for what a program injects into itself.
enum class Controller : std::uint8_t { kRun, kNobody };

// kUnsupported: names the fault, the key and why.
Status check_decidable(const Scenario& scenario, Controller controller = Controller::kRun);

}  // namespace sabot::scenario
