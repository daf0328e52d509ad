// The side of `sabot ctl`: finds the run, sends one request, reads one answer.
#pragma once

#include <string>

#include "launch/control/request.hpp"

namespace sabot::launch::control {

inline constexpr int kAnswerTimeoutS = 10;

// What the run answered, if it did what was asked. kInvalidArgument: it refused, the text says why;
// kNotFound: there is no such run, or it has ended.
Result<run::JsonValue> ask(const std::string& run_folder, const Request& request);

}  // namespace sabot::launch::control
