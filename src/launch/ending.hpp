// The end of a run: what was attached, what fired, what did not and why, and the exit status that
// follows.
//
// The evidence is read from the run folder, where processes left it even if they were killed. The
// sentences and the status are pure functions of the evidence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/child_process.hpp"
#include "launch/plan.hpp"
#include "run/read/journal_reader.hpp"

namespace sabot::launch {

// What `sabot run` ends with, besides the command's own status and 128 + signal.
inline constexpr int kStatusBadInput = 2;
inline constexpr int kStatusNothingAttached = 3;
inline constexpr int kStatusNotFired = 4;

struct FaultEvidence {
  std::string name;
  std::uint64_t fired = 0;  // lines of the journal, without those that did nothing
  std::string explanation;  // why it did not fire, or the last that did nothing did nothing
};

// Processes and the calls that Sabot saw in them.
struct Presence {
  std::uint64_t attached = 0;
  std::uint64_t calls_seen = 0;
};

struct Evidence {
  Presence here;                       // of the processes that this launcher started
  Presence run;                        // of all of the run
  std::uint64_t firings = 0;           // of planned faults
  std::uint64_t injected = 0;          // of faults that programs injected themselves
  std::uint64_t firings_unproven = 0;  // counted by processes that could not write their journal
  std::uint64_t launchers_left = 0;    // others that still run in this run folder
  std::vector<FaultEvidence> faults;   // of the plan, then of what was added while the run went on
  std::vector<std::string> not_attached;  // one clause a process that used CUDA or NCCL without us
  std::vector<std::string> problems;      // files of the run that could not be read
};

// launcher: HOST.PID of the launcher that asks.
Evidence gather_evidence(const std::string& run_folder, const Plan& plan,
                         const std::string& launcher);

struct Conclusion {
  std::vector<std::string> lines;  // without the "[sabot] " in front
  int status = 0;
  bool is_failure_of_ours = false;  // status 3 or 4: the lines are printed even when quiet
};
// While other launchers are left nothing is said about faults: they may still fire there.
Conclusion conclude(const Evidence& evidence, const Ending& ending, bool require_fired);

}  // namespace sabot::launch
