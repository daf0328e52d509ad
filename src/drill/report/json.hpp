// The result of a drill as JSON, for programs. docs/drill.md lists every key; a key is never
// renamed, a newer version only adds some.
#pragma once

#include <string>

#include "drill/result.hpp"

namespace sabot::drill::report {

inline constexpr int kJsonVersion = 1;

std::string json_of(const DrillReport& report);

}  // namespace sabot::drill::report
