// The journals of a run, read back and merged: the ground truth for the end of a run and for
// reports.
//
// Lines that cannot be read are named and left out; the rest still counts. Nothing here is linked
// into a process under test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sabot::run {

struct JournalLine {
  std::string text;  // the line as written
  std::uint64_t epoch_ns = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string scenario, fault, action, code, function, comm;
  std::string refused;  // why the firing whose line came before did nothing; then this is no firing
  int attempt = 0;
  int rank = -1;
  int world_rank = -1;
  std::uint64_t nth = 0;
  std::uint64_t nth_collective = 0;
  std::uint64_t match = 0;
  std::uint64_t budget_claim = 0;
  std::uint64_t injection = 0;  // the process armed the fault itself; 0: it is one of the run
};

struct JournalContent {
  std::vector<JournalLine> lines;     // of all processes, by time
  std::vector<std::string> problems;  // files and lines that could not be read
};

// Merges the journals of all processes of a run. A missing folder is an empty journal.
JournalContent read_journals(const std::string& run_folder);

}  // namespace sabot::run
