// A drill plan: which command, under which scenarios, and what is expected of it.
//
// Plain data, made by parse.hpp from a TOML file. A plan that exists is consistent; scenario files
// that it names are read by load_plan, so that everything that can be wrong is known before
// anything starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/number_set.hpp"
#include "scenario/scenario.hpp"

namespace sabot::drill {

inline constexpr std::uint64_t kParallelMax = 64;
inline constexpr std::uint64_t kBudgetDefault = 20;
inline constexpr std::uint64_t kBudgetMax = 100'000;
inline constexpr std::uint64_t kDeadlineDefaultNs = 120'000'000'000;

// Lines of what the command printed, or of a file that it wrote: "stdout:step ([0-9]+)".
struct Pattern {
  std::string source;  // "stdout" (and stderr), or a path with placeholders
  std::string regex;   // POSIX extended
};

// How the result of a case is compared with that of the baseline: at most one of the two.
struct CheckRule {
  std::vector<std::string> command;
  std::optional<Pattern> pattern;
  bool exists() const { return !command.empty() || pattern.has_value(); }
};

// A command that must succeed, or the drill is skipped.
struct Prerequisite {
  std::vector<std::string> command;
  std::string otherwise;  // the reason that is then given
};

struct Listed {
  std::string name;  // of the case; "" = that of the scenario
  std::string file;  // as written; "" = it stands in the plan
  std::size_t line = 0;
  scenario::Scenario scenario;
  std::optional<std::uint64_t> deadline_ns;
};

// Which call of a function on a rank a generated fault meets.
enum class Phase : std::uint8_t {
  kInit,      // the functions that make comms
  kFirst,     // the first call
  kSteady,    // one in between
  kLast,      // the last call
  kGroup,     // the first call within a group
  kTeardown,  // the functions that end comms
};
inline constexpr int kPhaseCount = 6;
constexpr std::string_view word_of(Phase phase) {
  constexpr std::string_view kWords[kPhaseCount] = {"init", "first", "steady",
                                                    "last", "group", "teardown"};
  return kWords[static_cast<int>(phase)];
}

struct Generate {
  std::vector<std::string> calls;    // functions; empty: whatever the baseline calls
  std::vector<std::string> actions;  // as in a line: "error(SystemError)"
  scenario::NumberSet ranks;         // empty: each
  std::vector<Phase> phases;
  std::uint64_t budget = kBudgetDefault;  // most cases of this table
  std::optional<scenario::Expectation> expect;
  std::size_t line = 0;
};

struct Plan {
  std::string name;
  std::string file;
  std::vector<std::string> command;
  std::string engine;  // "" = left to the run
  std::uint64_t deadline_ns = kDeadlineDefaultNs;
  bool has_baseline = true;
  std::uint64_t parallel = 1;
  std::uint64_t seed = 0;
  std::optional<Pattern> progress;
  CheckRule check;
  std::optional<scenario::Expectation> expect;  // of cases that state none
  std::vector<Prerequisite> needs;
  std::vector<Listed> scenarios;
  std::vector<Generate> generators;
};

}  // namespace sabot::drill
