// The tallies of all processes of a run, read after (or while) they count.
//
// A page that is being written is read as it is: every counter is whole, and they need not agree.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
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
  std::uint32_t slot_bytes = 0;
  std::uint32_t fault_count = 0;
  std::vector<unsigned char> slots;

  // A copy of one slot; false if the slots are of another size, or there is none of that number.
  template <typename T>
  bool slot(std::size_t index, T& into) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (slot_bytes != sizeof(T) || index >= fault_count) return false;
    std::memcpy(&into, slots.data() + index * sizeof(T), sizeof(T));
    return true;
  }
};

// The pages of all processes of a run. Files that are none are named in problems.
std::vector<TallyRecord> read_tallies(const std::string& run_folder,
                                      std::vector<std::string>& problems);

}  // namespace sabot::run
