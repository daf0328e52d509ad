// The canonical text of faults and scenarios, in both forms.
//
// What is printed parses back to the same meaning; defaults are left out. Used by `sabot scenario
// check`, the journal and the copy in the run folder, so that one fault has one spelling
// everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "scenario/scenario.hpp"

namespace sabot::scenario {

// "nic-dies: AllReduce[rank=1,nth=3,budget=1]=error(SystemError)"
std::string to_line(const Fault& fault);
// "error(SystemError,at=after)"
std::string to_line(const Action& action);
// All faults in one line; "seed=42;" first where the seed is not 0. A line has no name, no number
// of ranks and no expectation.
std::string to_line(const Scenario& scenario);
std::string to_toml(const Scenario& scenario);

// The value of one condition as messages show it: "7", "'>=1MiB'", "AllReduce|Send"; "" if absent.
std::string condition_text(const Trigger& trigger, Condition condition);

// "completes|recovers": the words of a set of outcomes.
std::string outcome_text(std::uint32_t outcomes);

// The largest unit that says it exactly: "200ms", "90s".
std::string duration_text(std::uint64_t ns);

}  // namespace sabot::scenario
