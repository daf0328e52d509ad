// The creation of a communicator as a piece of work that can run now, in a group, or behind the
// caller's back.
//
// Creating means meeting other ranks, which may be held by the same thread; so the jobs of a group
// run side by side, and a non-blocking one runs on a thread of ours while the caller polls
// ncclCommGetAsyncError.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "comm/comm.hpp"

namespace sabot::comm::life {

struct Job {
  const char* function = "";
  CommRef fresh;   // the communicator to be; empty where this rank gets none (split without color)
  CommRef parent;  // may be empty
  ncclComm_t* out = nullptr;
  bool blocking = true;
  // Brings the seat, or nothing for a rank that gets none.
  std::function<Result<std::optional<Seat>>()> work;
  // Told why, if the job is given up before it ran.
  std::function<void(const Error&)> give_up;
};

// Runs it to its end in this thread. A blocking one that fails takes its handle back.
Status run(Job& job);
// All side by side; in order of the jobs, what became of the blocking ones.
std::vector<Status> run_all(std::vector<std::unique_ptr<Job>> jobs);
// On a thread of ours.
Status run_behind(std::unique_ptr<Job> job);
// Never runs: takes its handle back.
void give_up(Job& job, const Error& why);

}  // namespace sabot::comm::life
