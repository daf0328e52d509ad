// The life of a communicator: creation in every way, queries, split, finalize and abort.
#include <cstddef>
#include <thread>

#include "array.hpp"
#include "checks.hpp"

namespace sabot::conformance {
namespace {

class Communicator : public WithRanks {};

TEST_P(Communicator, KnowsItsRankItsSizeAndItsDevice) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    int device = -1;
    MUST_SUCCEED(CommCuDevice(own.comm, &device));
    if (!subject().on_host() && device != own.rank)
      return wrong("is on device " + std::to_string(device));
    return has_shape(own.comm, own.rank, own.ranks);
  });
}

TEST_P(Communicator, HasNoAsynchronousErrorWhileAllIsWell) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    ncclResult_t state = ncclInternalError;
    MUST_SUCCEED(CommGetAsyncError(own.comm, &state));
    return state == ncclSuccess ? Verdict{} : wrong("the state is " + text_of(state));
  });
}

TEST_P(Communicator, IsMadeByGroupedInitInOneThread) {
  const int ranks = GetParam();
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  ASSERT_RESULT(ncclSuccess, nccl().GroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    subject().memory->use_device(rank);
    ASSERT_RESULT(ncclSuccess,
                  nccl().CommInitRank(&comms[static_cast<std::size_t>(rank)], ranks, id, rank));
  }
  ASSERT_RESULT(ncclSuccess, nccl().GroupEnd());
  for (int rank = 0; rank < ranks; ++rank) {
    const ncclComm_t comm = comms[static_cast<std::size_t>(rank)];
    EXPECT_EQ(has_shape(comm, rank, ranks).complaint, "");
  }
  ASSERT_RESULT(ncclSuccess, nccl().GroupStart());
  for (const ncclComm_t comm : comms) EXPECT_RESULT(ncclSuccess, nccl().CommDestroy(comm));
  ASSERT_RESULT(ncclSuccess, nccl().GroupEnd());
}

TEST_P(Communicator, SplitByParityReversesTheOrderByKey) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    ncclComm_t child = nullptr;
    MUST_SUCCEED(CommSplit(own.comm, own.rank % 2, -own.rank, &child, nullptr));
    const int ranks = (own.ranks + 1 - own.rank % 2) / 2;
    return check_child(child, ranks - 1 - own.rank / 2, ranks, own.stream);
  });
}

TEST_P(Communicator, SplitWithEqualKeysKeepsTheOrderOfTheParent) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    ncclComm_t child = nullptr;
    MUST_SUCCEED(CommSplit(own.comm, 4711, 0, &child, nullptr));
    return check_child(child, own.rank, own.ranks, own.stream);
  });
}

TEST_P(Communicator, SplitGivesNothingToARankWithoutColor) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    int unset = 0;
    auto child = reinterpret_cast<ncclComm_t>(&unset);
    const int color = own.rank == 0 ? NCCL_SPLIT_NOCOLOR : 3;
    MUST_SUCCEED(CommSplit(own.comm, color, own.rank, &child, nullptr));
    if (own.rank == 0)
      return child == NCCL_COMM_NULL ? Verdict{} : wrong("rank 0 got a communicator");
    return check_child(child, own.rank - 1, own.ranks - 1, own.stream);
  });
}

TEST_P(Communicator, AChildCanBeSplitAgainAndOutlivesItsParent) {
  auto world = World::of_threads(GetParam());
  ASSERT_NE(world, nullptr);
  std::vector<ncclComm_t> grandchildren(static_cast<std::size_t>(GetParam()));
  world->run([&](const Rank& own, Buffers&) -> Verdict {
    ncclComm_t child = nullptr;
    MUST_SUCCEED(CommSplit(own.comm, 0, own.ranks - own.rank, &child, nullptr));
    MUST_SUCCEED(
        CommSplit(child, 0, 0, &grandchildren[static_cast<std::size_t>(own.rank)], nullptr));
    MUST_SUCCEED(CommDestroy(child));
    return check_child(grandchildren[static_cast<std::size_t>(own.rank)], own.ranks - 1 - own.rank,
                       own.ranks, own.stream);
  });
}

TEST_P(Communicator, SeveralOfTheSameRanksWorkSideBySide) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    ncclComm_t second = nullptr;
    MUST_SUCCEED(CommSplit(own.comm, 0, own.ranks - own.rank, &second, nullptr));
    for (int round = 0; round < 3; ++round) {
      const Verdict first = works(own.comm, own.rank, own.ranks, own.stream);
      if (!first.complaint.empty()) return first;
      const Verdict other = works(second, own.ranks - 1 - own.rank, own.ranks, own.stream);
      if (!other.complaint.empty()) return other;
    }
    return verdict_of("CommDestroy", nccl().CommDestroy(second));
  });
}

TEST_P(Communicator, IsMadeFromSeveralIds) {
  REQUIRE_FUNCTION(CommInitRankScalable);
  const int ranks = GetParam();
  std::vector<ncclUniqueId> ids(static_cast<std::size_t>(ranks));
  for (ncclUniqueId& id : ids) ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  run_in_threads(ranks, [&ids](const Rank& own, Buffers&) -> Verdict {
    ncclComm_t made = nullptr;
    std::vector<ncclUniqueId> copy = ids;
    MUST_SUCCEED(CommInitRankScalable(&made, own.ranks, own.rank, own.ranks, copy.data(), nullptr));
    return check_child(made, own.rank, own.ranks, own.stream);
  });
}

TEST_P(Communicator, AcceptsTheShorterConfigOfAnOlderHeader) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = offsetof(ncclConfig_t, trafficClass);  // as NCCL 2.18 had it
  config.version = NCCL_VERSION(2, 18, 3);
  auto world = World::of_threads(GetParam(), &config);
  ASSERT_NE(world, nullptr);
  world->run(
      [](const Rank& own, Buffers&) { return works(own.comm, own.rank, own.ranks, own.stream); });
}

TEST_P(Communicator, IsFinalizedBeforeItIsDestroyed) {
  auto world = World::of_threads(GetParam());
  ASSERT_NE(world, nullptr);
  world->run([](const Rank& own, Buffers&) -> Verdict {
    const Verdict verdict = works(own.comm, own.rank, own.ranks, own.stream);
    if (!verdict.complaint.empty()) return verdict;
    MUST_SUCCEED(CommFinalize(own.comm));
    ncclResult_t state = ncclInternalError;
    MUST_SUCCEED(CommGetAsyncError(own.comm, &state));
    return state == ncclSuccess ? Verdict{} : wrong("the state is " + text_of(state));
  });
}

TEST_P(Communicator, NonBlockingInProgressIsNotAnError) {
  const int ranks = GetParam();
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  run_in_threads(ranks, [&id](const Rank& own, Buffers&) -> Verdict {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const ncclResult_t started = nccl().CommInitRankConfig(&comm, own.ranks, id, own.rank, &config);
    if (started != ncclSuccess && started != ncclInProgress)
      return verdict_of("CommInitRankConfig", started);
    if (comm == nullptr) return out_of_step("the handle must be there to be asked");
    Verdict verdict = verdict_of("creation", settle(comm, ncclInProgress));
    if (!verdict.complaint.empty()) return verdict;
    const Array<float> data(std::vector<float>(3, 1.0f), own.stream);
    const ncclResult_t enqueued =
        nccl().AllReduce(data.data(), data.data(), 3, ncclFloat32, ncclSum, comm, own.stream);
    verdict = verdict_of("AllReduce", settle(comm, enqueued));
    if (!verdict.complaint.empty()) return verdict;
    const std::string difference =
        differs("sum", data.get(), std::vector<float>(3, static_cast<float>(own.ranks)));
    verdict = verdict_of("CommFinalize", settle(comm, nccl().CommFinalize(comm)));
    if (!verdict.complaint.empty()) return verdict;
    MUST_SUCCEED(CommDestroy(comm));
    return wrong(difference);
  });
}

TEST_P(Communicator, IdleRanksCanAbort) {
  auto world = World::of_threads(GetParam());
  ASSERT_NE(world, nullptr);
  world->run([](const Rank& own, Buffers&) -> Verdict {
    const Verdict verdict = works(own.comm, own.rank, own.ranks, own.stream);
    if (!verdict.complaint.empty()) return verdict;
    return verdict_of("CommAbort", nccl().CommAbort(own.comm));
  });
  world->forget();
}

INSTANTIATE_FOR_EVERY_WORLD(Communicator);

TEST(CommunicatorMemory, FromNcclIsUsableInCollectives) {
  REQUIRE_FUNCTION(MemAlloc);
  World* world = threads_world(1);
  ASSERT_NE(world, nullptr);
  const Rank own = world->ranks().front();
  Memory& memory = *subject().memory;
  memory.use_device(0);
  void* data = nullptr;
  ASSERT_RESULT(ncclSuccess, nccl().MemAlloc(&data, 1000));
  float values[] = {1, 2, 3};
  memory.write(data, values, sizeof values, own.stream);
  void* handle = nullptr;
  EXPECT_RESULT(ncclSuccess, nccl().CommRegister(own.comm, data, 1000, &handle));
  EXPECT_RESULT(ncclSuccess,
                nccl().AllReduce(data, data, 3, ncclFloat32, ncclSum, own.comm, own.stream));
  memory.read(values, data, sizeof values, own.stream);
  EXPECT_EQ(values[2], 3.0f);
  EXPECT_RESULT(ncclSuccess, nccl().CommDeregister(own.comm, handle));
  EXPECT_RESULT(ncclSuccess, nccl().MemFree(data));
}

}  // namespace
}  // namespace sabot::conformance
