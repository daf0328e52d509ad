// The reference page of scenarios, made from the tables by which they are parsed.
#pragma once

#include <string>

namespace sabot::scenario {

// Markdown: every key, condition, group of calls, action and outcome, with an example each.
std::string reference_markdown();

}  // namespace sabot::scenario
