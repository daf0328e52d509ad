// What must hold for every text that somebody calls a scenario.
//
// Accepted: both printed forms read back to the same meaning, and deciding a call neither fails nor
// depends on anything but its inputs. Refused: the message has lines that each name the source. A
// property that does not hold aborts, which is what a fuzzer looks for.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "scenario/scenario.hpp"

namespace sabot::fuzz {

void check_properties(const Result<scenario::Scenario>& parsed, std::string_view source);

}  // namespace sabot::fuzz
