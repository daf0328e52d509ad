// What `sabot drill` does: run a command under one scenario after the other, and judge each run.
//
// The baseline first, without a fault: it says what the job calls, how long it takes, and what its
// result is. Each case is a `sabot run` of its own, under a keeper; when it is over it is judged
// from its folder. Everything that can be known to be wrong is said before the first case starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "drill/progress.hpp"
#include "drill/result.hpp"

namespace sabot::drill {

inline constexpr int kStatusHolds = 0;
inline constexpr int kStatusFails = 1;     // at least one expectation does not hold
inline constexpr int kStatusBadInput = 2;  // nothing was judged
inline constexpr int kStatusSkipped = 77;  // as test harnesses say it

struct DrillOptions {
  std::string plan;
  std::vector<std::string> command;  // instead of the plan's
  std::string run_folder;
  bool resume = false;
  std::optional<std::uint64_t> parallel;
  std::optional<std::uint64_t> budget;  // of each [[generate]]
  std::optional<std::uint64_t> seed;
};

struct DrillSurroundings {
  std::string program;  // `sabot` itself
  std::string version;
  const char* const* environment = nullptr;
  // Whether there is such a program at all; null: every case finds out by itself.
  Status (*check_command)(const std::vector<std::string>& words) = nullptr;
  ProgressOptions progress;
};

struct DrillEnd {
  int status = kStatusBadInput;
  int signal = 0;  // that ended the drill early; 0 = none
  DrillReport report;
};

// An error means that nothing was judged: the plan, the command or the baseline is no good. Its
// text may have several lines.
Result<DrillEnd> carry_out(const DrillOptions& options, const DrillSurroundings& around);

}  // namespace sabot::drill
