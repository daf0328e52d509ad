// Runs a command and hands over what it prints, line by line, within a time limit.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "launch/child_process.hpp"

namespace sabot::launch {

// words[0] is a path. Standard input is empty; both outputs come in the order in which they were
// written. kTimeout: the command was asked to end and then killed.
Result<Ending> run_captured(const std::vector<std::string>& words,
                            const std::vector<std::string>& environment, int timeout_ms,
                            const std::function<void(std::string_view line)>& line);

}  // namespace sabot::launch
