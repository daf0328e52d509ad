// The attach records of a run: which processes Sabot was in, and which it could not get into.
#pragma once

#include <string>
#include <vector>

#include "run/attach_record.hpp"

namespace sabot::run {

// In the order of their file names. Records that cannot be read are named in problems.
std::vector<AttachRecord> read_attach_records(const std::string& run_folder,
                                              std::vector<std::string>& problems);

}  // namespace sabot::run
