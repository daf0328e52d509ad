// The clock of deadlines: it never goes back, and is the same in all processes of a machine.
#pragma once

#include <time.h>

#include <cstdint>

namespace sabot {

// CLOCK_MONOTONIC; 20 to 50 ns.
inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace sabot
