// What the applications of a run were told, read back and merged.
//
// Lines that cannot be read are named and left out; the rest still counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/record/observation.hpp"

namespace sabot::run {

struct SeenLine {
  SeenKind kind = SeenKind::kError;
  std::uint64_t epoch_ns = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string function, code, comm;
  int attempt = 0;
  int rank = -1;
  int world_rank = -1;
  std::uint64_t nth = 0;
  bool injected = false;
};

struct ObservationContent {
  std::vector<SeenLine> lines;        // of all processes, by time
  std::vector<std::string> problems;  // files and lines that could not be read
};

// A missing folder is an empty record.
ObservationContent read_observations(const std::string& run_folder);

}  // namespace sabot::run
