// Which conditions this build can decide. The grammar knows more, so that a file is never misread;
// a fault whose condition nobody can decide would pass for the wrong reason, so it is refused
// before the job starts.
#pragma once

#include "base/result.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

// kUnsupported: names the fault, the key and why.
Status check_decidable(const Scenario& scenario);

}  // namespace sabot::scenario
