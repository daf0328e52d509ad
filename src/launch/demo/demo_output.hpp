// What the demo's program printed, understood and judged. Pure.
//
// The program prints one line a rank and call: "rank 0 call 1 AllReduce ok sum=3" or
// "rank 1 call 3 AllReduce error ncclSystemError (2): TEXT". In call c rank r contributes r + c, so
// the sum over n ranks is n(n-1)/2 + nc, and every rank has to show it. The judges take all ranks
// in: a verdict of one rank hides what happened to another. A complaint is a sentence; none means
// that it is so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/read/journal_reader.hpp"
#include "scenario/scenario.hpp"

namespace sabot::launch {

struct ProgramLine {
  int rank = -1;
  std::uint64_t call = 0;
  std::string function;
  bool ok = false;
  std::string sum;    // of an ok line
  std::string error;  // "ncclSystemError"
  std::string text;   // behind the error
};

// nullopt for lines that are something else.
std::optional<ProgramLine> parse_program_line(std::string_view line);

struct DemoShape {
  std::uint64_t ranks = 2;
  std::uint64_t calls = 5;
};

std::vector<std::string> judge_clean(const std::vector<ProgramLine>& lines, const DemoShape& shape);

struct BrokenVerdict {
  std::vector<std::string> complaints;
  std::uint64_t planned = 0;
  std::uint64_t fired = 0;  // lines of the journal
  std::uint64_t seen = 0;  // firings that the application reported: same rank, function, call, code
  std::vector<ProgramLine> hit;     // those reports
  std::vector<ProgramLine> others;  // the last line of every other rank
  // "planned 1, fired 1, seen by the application 1 (ncclSystemError, rank 1, AllReduce, call 3)"
  std::string summary() const;
};

BrokenVerdict judge_broken(const std::vector<ProgramLine>& lines, const DemoShape& shape,
                           const scenario::Scenario& scenario,
                           const std::vector<run::JournalLine>& journal);

}  // namespace sabot::launch
