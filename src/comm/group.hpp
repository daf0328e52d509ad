// Groups: what a thread collects between ncclGroupStart and the outermost ncclGroupEnd.
//
// Nothing runs before the end. The first error inside a group is returned by the call that made it
// and again by the outermost end, which then launches nothing. Creations run first, side by side;
// then, for each communicator, its operations as one batch.
#pragma once

#include <nccl.h>

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "comm/comm.hpp"
#include "comm/data_call.hpp"
#include "comm/launch.hpp"
#include "comm/life/job.hpp"
#include "comm/options.hpp"

namespace sabot::comm {

// Open ncclGroupStart calls of this thread.
extern constinit thread_local int group_depth;
inline bool in_group() { return group_depth > 0; }

void group_start();
ncclResult_t group_end(const Options& options);
// The time that the group would take, in microseconds; the group ends and nothing is launched.
Result<float> group_simulate_end();

// Precondition of both: in_group().
void add_to_group(const CommRef& comm, Issued operation);
void add_to_group(std::unique_ptr<life::Job> job);

// report(), and the group of this thread, if any, remembers it.
ncclResult_t refuse(const Options& options, const char* function, const Error& error);

// Issues batches: at once in this thread, or into their streams. Fails with the first failure of
// those that ran in this thread.
Status launch(const std::vector<std::shared_ptr<Batch>>& batches);

// A collective, send or recv from the application, in a group or not.
ncclResult_t enqueue(const Options& options, ncclComm_t comm, cudaStream_t stream,
                     const DataCall& call);

// Runs a creation now, behind the caller, or later in this thread's group.
ncclResult_t submit(const Options& options, std::unique_ptr<life::Job> job);

}  // namespace sabot::comm
