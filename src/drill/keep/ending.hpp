// How a command under a keeper ended, and what it left behind. Plain data, with its form on disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace sabot::drill {

enum class Stop : std::uint8_t {
  kNone,         // it ended by itself
  kDeadline,     // its time was over
  kOutput,       // it printed without end
  kInterrupted,  // the drill itself was told to end
};
std::string_view word_of(Stop stop);

// When a process was there; as exact as the keeper looks.
struct ProcessLife {
  std::int64_t pid = 0;
  std::uint64_t first_ns = 0;  // CLOCK_REALTIME
  std::uint64_t last_ns = 0;
};

struct Ending {
  bool started = false;
  std::string problem;  // why it could not be started; "" = it was
  int exit_status = 0;
  int signal = 0;  // that ended it, 0 = none
  Stop stop = Stop::kNone;
  std::uint64_t started_ns = 0;  // CLOCK_REALTIME
  std::uint64_t finished_ns = 0;
  std::vector<ProcessLife> processes;
  std::vector<std::string> stuck;   // where its processes were when it had to be ended
  std::vector<std::string> leaked;  // processes, shared memory, sockets
};

std::string to_json(const Ending& ending);
Result<Ending> ending_of(std::string_view json);

}  // namespace sabot::drill
