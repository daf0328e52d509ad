// Everything that is known about one run of a case, and what was expected of it. Plain data: what
// the judge reads and tests write down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "drill/keep/ending.hpp"
#include "drill/result.hpp"
#include "run/attach_record.hpp"
#include "run/read/journal_reader.hpp"
#include "run/read/observation_reader.hpp"
#include "scenario/scenario.hpp"

namespace sabot::drill {

// An expectation in the words of results. An absent one is fulfilled by anything, but for the laws
// that bind every case: no hang, no wrong result, nothing left behind, every fault fired.
struct Expected {
  std::vector<Outcome> outcomes;  // empty: any of the well-behaved ones
  std::optional<std::uint64_t> detected_within_ns;
  std::optional<std::uint64_t> finished_within_ns;
  std::vector<scenario::ExpectedFirings> fired;
  std::optional<bool> check;
  std::optional<scenario::NumberSet> attempts;
  std::optional<scenario::NumberSet> steps_lost;
};
Expected expected_of(const scenario::Expectation& expectation);

struct Evidence {
  std::string name;
  scenario::Scenario scenario;  // without faults: the baseline
  Expected expected;
  std::uint64_t deadline_ns = 0;
  std::string scenario_file;
  std::string run_folder;
  std::string replay;

  Ending ending;
  bool made_run = false;  // the launcher got as far as making the run folder
  std::vector<run::JournalLine> journal;
  std::vector<run::SeenLine> seen;
  std::vector<run::AttachRecord> attached;
  std::vector<std::string> why_unfired;  // by fault of the scenario; "" where it fired
  std::uint64_t firings_unproven = 0;    // counted by processes, and not in the journal
  std::string disk_problem;              // "" = there was room to write
  std::vector<std::string> problems;     // parts of the record that could not be read
  bool has_check = false;                // the plan has one
  Check check;
  std::optional<std::uint64_t> steps_lost;
  std::vector<std::string> log_tail;
};

}  // namespace sabot::drill
