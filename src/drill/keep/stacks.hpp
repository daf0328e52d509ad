// Where every thread of a hung job is, written down before the job is ended.
//
// What the kernel tells of each thread always; the call stacks where eu-stack or gdb is installed
// and may look. A hang inside a vendor's library leaves no other trace.
#pragma once

#include <string>
#include <vector>

#include "drill/keep/process_tree.hpp"

namespace sabot::drill {

inline constexpr int kStacksMs = 10'000;  // for all processes together

// Writes FOLDER/PID.txt for each process; what cannot be had is left out.
void write_stacks(const std::string& folder, const std::vector<Process>& processes);

}  // namespace sabot::drill
