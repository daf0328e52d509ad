// How the ranks of a group meet through torch's store, and the barrier that names who is missing.
#pragma once

#include <nccl.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "pytorch/group/group.hpp"

namespace sabot::pytorch {

// Makes this rank's communicator and fills in member.session. Waits for every rank at most the
// member's timeout. Throws DistBackendError that names the ranks that did not come, or the rank
// that failed and why: a rank that fails tells the others, so that nobody waits for it.
ncclComm_t meet(::c10d::Store& store, Member& member);

// torch's monitored barrier, number `round` of this group: rank 0 waits for the others, one after
// the other or (all_ranks) for all. Throws DistBackendError naming who did not come.
void monitored_barrier(::c10d::Store& store, const Member& member, std::uint64_t round,
                       std::chrono::milliseconds timeout, bool all_ranks);

}  // namespace sabot::pytorch
