// The calls of a baseline: how often each rank called each function on each comm.
//
// Taken from the log of calls (SABOT_LOG=calls), a line each, so that nothing had to be built into
// the processes for it. Calls are counted per function, comm and rank, as the trigger of a fault
// counts them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "abi/function_id.hpp"
#include "base/result.hpp"

namespace sabot::drill {

struct Calls {
  abi::FunctionId function{};
  std::string comm;  // label; "" where the function belongs to none (yet)
  int rank = -1;     // in the comm
  std::uint64_t count = 0;
  std::uint64_t first_in_group = 0;  // which of them was the first within a group; 0: none was
};

class Census {
 public:
  // One line of a log, as it stands there. Lines that are no calls are passed over.
  void add(std::string_view line);
  // In the order of function, comm and rank.
  std::vector<Calls> calls() const;
  // Calls that the log left out because it was told to be brief.
  bool is_complete() const { return is_complete_; }

 private:
  std::vector<Calls> calls_;
  bool is_complete_ = true;
};

// All logs in this folder. A line longer than any of ours is passed over.
Result<Census> read_census(const std::string& folder);

// "AllReduce (12 times on 2 ranks), Broadcast (once on rank 0)", at most some; "nothing".
std::string census_text(const std::vector<Calls>& calls);

}  // namespace sabot::drill
