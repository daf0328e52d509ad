// What a drill found out, as plain data: what the judge makes and every printer reads.
//
// Nothing here computes or does I/O, and all texts are ready to print, so that a table, a JUnit
// file and a page can be made from literals in a test. Times are CLOCK_REALTIME in ns; 0 means that
// it never happened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sabot::drill {

// What became of a job. The first three are the ways to be well-behaved.
enum class Outcome : std::uint8_t {
  kCompletes,     // ended with status 0; nobody was given an error, nothing was restarted
  kRecovers,      // ended with status 0 although somebody was given an error, or after a restart
  kFailsCleanly,  // ended by itself with another status and left nothing behind
  kHangs,         // had to be ended at the deadline
  kDiesDirty,     // was ended by a signal that no fault sent, or left processes or files behind
  kWrongResult,   // ended with status 0, and its result is not that of the baseline
  kNotRecorded,   // cannot be judged: the run left no usable record (disk full, could not start)
  kSkipped,       // not run, for the reason in Case::note
};
inline constexpr int kOutcomeCount = 8;

// The word of plans, tables and files: "fails-cleanly".
constexpr std::string_view word_of(Outcome outcome) {
  constexpr std::string_view kWords[kOutcomeCount] = {"completes",    "recovers",   "fails-cleanly",
                                                      "hangs",        "dies-dirty", "wrong-result",
                                                      "not-recorded", "skipped"};
  return kWords[static_cast<int>(outcome)];
}

// One thing that was expected, and whether it came true.
struct Requirement {
  std::string what;      // "outcome", "detected_within", "fired nic-dies", …
  std::string expected;  // "recovers", "10s or less", "1"
  std::string observed;  // "hangs", "rank 1 after 31s", "0"
  bool holds = false;
  std::string reason;  // a sentence where it does not hold; "" where it does
};

// One fault of the scenario: how often it fired, and when first.
struct FaultSeen {
  std::string name;
  std::string action;  // as a line has it: "error(SystemError)"
  std::uint64_t fired_count = 0;
  std::uint64_t first_ns = 0;
  std::string where;    // of the first firing: "rank 1, AllReduce #3 on c0, attempt 0"
  std::string why_not;  // a sentence where it never fired; "" where it did
  std::string refused;  // what could not be done of it, and why; "" = all was done
};

// How one rank learned that something is wrong.
struct RankSeen {
  int rank = -1;  // world rank
  int attempt = 0;
  // "error", "async error", "abort", "ended" (its process ended without having been told),
  // "restarted"; "" = it never noticed.
  std::string how;
  std::string function;  // that gave the error
  std::string code;      // "ncclRemoteError"
  std::uint64_t detected_ns = 0;
  std::uint64_t after_fault_ns = 0;  // from the first firing of the case to detected_ns
};

enum class EventKind : std::uint8_t {
  kStart,      // the command was started
  kFault,      // a fault fired
  kDetection,  // a rank was given an error, by a call or by asking for one
  kAbort,      // a rank aborted or revoked a comm
  kRestart,    // a rank began another attempt
  kCreated,    // a rank made a comm
  kDestroyed,  // a rank destroyed a comm
  kEnded,      // the process of a rank ended
  kDeadline,   // the deadline came, and the drill ended everything
  kEnd,        // the command ended
};
inline constexpr int kEventKindCount = 10;
constexpr std::string_view word_of(EventKind kind) {
  constexpr std::string_view kWords[kEventKindCount] = {"start",    "fault",   "detection", "abort",
                                                        "restart",  "created", "destroyed", "ended",
                                                        "deadline", "end"};
  return kWords[static_cast<int>(kind)];
}

struct Event {
  EventKind kind = EventKind::kStart;
  std::uint64_t time_ns = 0;
  int rank = -1;  // -1: of the job as a whole
  int attempt = 0;
  std::string text;  // "nic-dies: error(SystemError) at AllReduce #3 on c0"
};

// The user's check of the result against that of the baseline.
struct Check {
  bool ran = false;
  bool agrees = false;
  std::string text;  // what it said, or why it did not run
};

struct Case {
  std::string name;
  std::string scenario;       // the name in the scenario
  std::string scenario_file;  // in the case's folder; replays with `sabot run --scenario`
  std::string run_folder;     // absolute; below it are journal, logs, output
  std::string faults_line;    // the faults in one line, for people and for --fault
  Outcome outcome = Outcome::kNotRecorded;
  std::string expected;  // outcomes allowed, "recovers" or "completes|recovers"
  bool holds = false;    // all requirements do
  std::vector<Requirement> requirements;
  std::vector<std::string> reasons;  // of the requirements that do not hold
  std::string note;                  // why it was skipped, or cannot be judged

  std::uint64_t started_ns = 0;
  std::uint64_t finished_ns = 0;
  std::uint64_t deadline_ns = 0;              // how long it was given
  std::uint64_t fault_ns = 0;                 // first firing of any fault
  std::vector<FaultSeen> faults;              // in the order of the scenario
  std::vector<RankSeen> ranks;                // by rank
  std::vector<Event> events;                  // by time
  std::optional<std::uint64_t> detection_ns;  // from the first firing until the last rank knew
  std::optional<std::uint64_t> recovery_ns;   // from the first firing until work went on
  std::uint64_t attempts = 0;
  std::optional<std::uint64_t> steps_lost;
  Check check;

  int exit_status = 0;                // of `sabot run`
  std::string status_text;            // "exit status 1", "signal 9 (Killed)"
  std::vector<std::string> leaked;    // "process 4711 (python3 train.py)", "/dev/shm/x (1.5MiB)"
  std::vector<std::string> problems;  // parts of the record that could not be read
  std::vector<std::string> log_tail;  // last lines of what the command printed
  std::string replay;                 // the command that runs this case alone

  std::uint64_t duration_ns() const {
    return finished_ns > started_ns ? finished_ns - started_ns : 0;
  }
};

struct DrillReport {
  std::string name;       // of the plan
  std::string plan_file;  // as given
  std::string folder;     // of the drill, absolute
  std::vector<std::string> command;
  std::uint64_t seed = 0;
  std::string version;  // of Sabot
  // What the result depends on, in the order to be printed: ("host", "node7"), ("engine", "host").
  std::vector<std::pair<std::string, std::string>> environment;
  std::uint64_t started_ns = 0;
  std::uint64_t finished_ns = 0;
  std::optional<Case> baseline;  // without faults; has no requirements but to complete
  std::vector<Case> cases;       // in the order of the plan
  std::uint64_t left_out = 0;    // generated cases beyond the budget
  std::string skipped;           // why the whole drill was skipped; "" = it was not

  bool holds() const {
    if (baseline && !baseline->holds) return false;
    for (const Case& one : cases)
      if (!one.holds && one.outcome != Outcome::kSkipped) return false;
    return true;
  }
};

}  // namespace sabot::drill
