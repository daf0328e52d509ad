// From the text of a plan to a Plan. Strict like scenarios: an unknown key, a wrong type or a
// contradiction is an error that names file, line, key and what to write instead; all mistakes are
// shown at once.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "drill/plan/plan.hpp"

namespace sabot::drill {

// Pure: scenario files are only named in the result. filename is for messages.
Result<Plan> parse_plan(std::string_view text, const std::string& filename);

// Reads the plan and the scenario files that it names, relative to its own folder.
Result<Plan> load_plan(const std::string& path);

}  // namespace sabot::drill
