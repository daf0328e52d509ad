// The tallies of all processes of a run, read after (or while) they count.
//
// A page that is being written is read as it is: every counter is whole, and they need not agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/tally.hpp"

namespace sabot::run {

struct TallyRecord {
  std::string tag;  // HOST.PID, with a number behind it if the process id came back
  std::int64_t pid = 0;
  std::uint64_t started_ns = 0;
  std::uint64_t plan_hash = 0;
  std::uint64_t calls_seen = 0;
  std::uint64_t errors_from_real = 0;
  std::uint64_t faults_fired = 0;
  std::vector<TallySlot> slots;
};

// The pages of all processes of a run. Files that are none are named in problems.
std::vector<TallyRecord> read_tallies(const std::string& run_folder,
                                      std::vector<std::string>& problems);

}  // namespace sabot::run
