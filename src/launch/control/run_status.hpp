// What `sabot ctl RUN status` says: a snapshot of a run, as JSON for programs and as text for
// people.
//
// The launcher that serves makes it; whoever asked reads the JSON back and prints the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/read/json_value.hpp"

namespace sabot::launch::control {

struct HeldStatus {
  std::int64_t rank = -1;  // world rank, -1 = unknown
  std::int64_t pid = 0;
  std::uint64_t for_ms = 0;
};

struct FaultStatus {
  std::string name;
  std::uint64_t added = 0;  // from RUN/added/N.toml, 0 = from the scenario of the run
  bool is_armed = false;
  std::uint64_t fired = 0;
  std::uint64_t budget = 0;  // 0 = no limit
  std::uint64_t left = 0;    // of the budget
  std::string waits_for{};   // a requested firing waits: "any rank", "rank 3"; "" = none
  std::vector<HeldStatus> held{};
};

struct SwitchStatus {
  std::string name;
  bool is_on = false;
};

struct RunStatus {
  std::string run_folder;
  std::string host;  // where the launcher that serves runs; its control reaches this host
  std::int64_t launcher_pid = 0;
  std::uint64_t running_ms = 0;
  std::uint64_t attached = 0;    // processes so far
  std::uint64_t alive = 0;       // … of this host that have not ended
  std::uint64_t elsewhere = 0;   // … of other hosts
  std::uint64_t calls_seen = 0;  // in all of them
  std::vector<FaultStatus> faults;
  std::vector<SwitchStatus> switches;
  std::vector<std::string> problems;  // files of the run that could not be read
};

std::string to_json(const RunStatus& status);
RunStatus status_of(const run::JsonValue& json);
// Lines with a newline behind each.
std::string text_of(const RunStatus& status);

}  // namespace sabot::launch::control
