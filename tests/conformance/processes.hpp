// Worlds whose ranks are processes: this program, started once per rank, told which scenario to
// play.
//
// Each rank is a fresh process image that has called neither NCCL nor CUDA, with the unique id
// coming through a pipe from rank 0, as launchers do it. A rank says what went wrong on stderr and
// by its exit status. If the test program dies, its ranks die with it.
#pragma once

#include <string>
#include <vector>

#include "world.hpp"

namespace sabot::conformance {

// What one rank does; the communicator is there and is destroyed afterwards.
using Scenario = Verdict (*)(const Rank&, Buffers&);
struct NamedScenario {
  const char* name;
  Scenario play;
};
const std::vector<NamedScenario>& scenarios();  // processes_test.cpp

struct ProcessEnd {
  int status = 0;  // as of waitpid
  bool timed_out = false;
  bool succeeded() const { return status == 0 && !timed_out; }
  std::string text() const;
};

// Starts the ranks and waits until all have ended, at most until the deadline of a test.
std::vector<ProcessEnd> run_processes(const char* scenario, int ranks);

// What main finds on the command line of such a rank.
struct ProcessRank {
  std::string scenario;
  int rank = -1;
  int ranks = 0;
  int id_fd = -1;  // rank 0 writes the id to it, once per other rank; the others read it
};
// The main function of a rank; returns the exit status.
int play(const ProcessRank& process);

}  // namespace sabot::conformance
