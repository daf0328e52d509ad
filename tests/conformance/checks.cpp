// The checks of checks.hpp.
#include "checks.hpp"

#include <thread>

#include "array.hpp"

namespace sabot::conformance {

Verdict works(ncclComm_t comm, int rank, int ranks, Stream stream) {
  const Array<float> data(std::vector<float>(33, static_cast<float>(rank + 1)), stream);
  const Array<float> parts(static_cast<std::size_t>(ranks), stream);
  MUST_SUCCEED(AllReduce(data.data(), data.data(), 33, ncclFloat32, ncclSum, comm, stream));
  const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  const std::string difference = differs("sum", data.get(), std::vector<float>(33, sum));
  if (!difference.empty()) return wrong(difference);
  data.set({static_cast<float>(rank + 1)});
  MUST_SUCCEED(AllGather(data.data(), parts.data(), 1, ncclFloat32, comm, stream));
  std::vector<float> wanted;
  for (int i = 1; i <= ranks; ++i) wanted.push_back(static_cast<float>(i));
  return wrong(differs("ranks", parts.get(), wanted));
}

Verdict has_shape(ncclComm_t comm, int rank, int ranks) {
  int got_rank = -1;
  int got_ranks = -1;
  MUST_SUCCEED(CommUserRank(comm, &got_rank));
  MUST_SUCCEED(CommCount(comm, &got_ranks));
  if (got_rank == rank && got_ranks == ranks) return {};
  return out_of_step("is rank " + std::to_string(got_rank) + " of " + std::to_string(got_ranks) +
                     ", not rank " + std::to_string(rank) + " of " + std::to_string(ranks));
}

Verdict check_child(ncclComm_t child, int rank, int ranks, Stream stream) {
  Verdict verdict = has_shape(child, rank, ranks);
  if (verdict.complaint.empty()) verdict = works(child, rank, ranks, stream);
  if (verdict.complaint.empty()) verdict = verdict_of("CommDestroy", nccl().CommDestroy(child));
  return verdict;
}

ncclResult_t settle(ncclComm_t comm, ncclResult_t result) {
  ncclResult_t state = result;
  while (state == ncclInProgress) {
    const ncclResult_t asked = nccl().CommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) return asked;
    std::this_thread::yield();
  }
  return state;
}

}  // namespace sabot::conformance
