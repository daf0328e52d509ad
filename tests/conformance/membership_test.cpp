// Who belongs to a communicator, and what the others see when a rank leaves, dies, or disagrees.
#include <atomic>
#include <future>
#include <thread>

#include "array.hpp"
#include "checks.hpp"

namespace sabot::conformance {
namespace {

class Membership : public WithRanks {};

// In a world of its own: children of a communicator are numbered, and the rank that is left out
// does not count this one.
TEST_P(Membership, ShrinksToTheRanksThatStay) {
  REQUIRE_FUNCTION(CommShrink);
  if (GetParam() == 1) return;  // nobody would stay
  auto world = World::of_threads(GetParam());
  ASSERT_NE(world, nullptr);
  world->run([](const Rank& own, Buffers&) -> Verdict {
    if (own.rank == 0) return {};
    int excluded = 0;
    ncclComm_t child = nullptr;
    MUST_SUCCEED(CommShrink(own.comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    return check_child(child, own.rank - 1, own.ranks - 1, own.stream);
  });
}

// All ranks but the last form a communicator, which then takes in the last.
TEST_P(Membership, GrowsByANewRank) {
  REQUIRE_FUNCTION(CommGrow);
  if (GetParam() == 1) return;  // nobody to grow from
  std::promise<ncclUniqueId> made;
  std::shared_future<ncclUniqueId> id = made.get_future().share();
  run_in_threads(GetParam(), [&](const Rank& own, Buffers&) -> Verdict {
    const bool is_new = own.rank == own.ranks - 1;
    ncclComm_t small = nullptr;
    ncclComm_t grown = nullptr;
    MUST_SUCCEED(CommSplit(own.comm, is_new ? NCCL_SPLIT_NOCOLOR : 0, 0, &small, nullptr));
    if (own.rank == 0) {
      ncclUniqueId fresh;
      MUST_SUCCEED(CommGetUniqueId(small, &fresh));
      made.set_value(fresh);
    }
    const ncclUniqueId* shown = nullptr;
    if (is_new || own.rank == 0) shown = &id.get();
    MUST_SUCCEED(CommGrow(small, own.ranks, shown, is_new ? own.rank : -1, &grown, nullptr));
    if (!is_new) MUST_SUCCEED(CommDestroy(small));
    return check_child(grown, own.rank, own.ranks, own.stream);
  });
}

TEST_P(Membership, ARevokedCommunicatorRefusesWorkAndCanBeDestroyed) {
  REQUIRE_FUNCTION(CommRevoke);
  auto world = World::of_threads(GetParam());
  ASSERT_NE(world, nullptr);
  world->run([](const Rank& own, Buffers&) -> Verdict {
    const Verdict before = works(own.comm, own.rank, own.ranks, own.stream);
    if (!before.complaint.empty()) return before;
    const ncclResult_t revoked = nccl().CommRevoke(own.comm, NCCL_REVOKE_DEFAULT);
    const Verdict settled = verdict_of("CommRevoke", settle(own.comm, revoked));
    if (!settled.complaint.empty()) return settled;
    const Array<float> data(3, own.stream);
    const ncclResult_t refused =
        nccl().AllReduce(data.data(), data.data(), 3, ncclFloat32, ncclSum, own.comm, own.stream);
    if (refused != ncclInvalidUsage) return wrong("AllReduce gave " + text_of(refused));
    return verdict_of("CommDestroy", nccl().CommDestroy(own.comm));
  });
  world->forget();
}

TEST_P(Membership, ASimulatedGroupIsEstimatedAndNotRun) {
  REQUIRE_FUNCTION(GroupSimulateEnd);
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<float> data(std::vector<float>(1000, 1.0f), own.stream);
    ncclSimInfo_t estimate = NCCL_SIM_INFO_INITIALIZER;
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(
        AllReduce(data.data(), data.data(), 1000, ncclFloat32, ncclSum, own.comm, own.stream));
    MUST_SUCCEED(GroupSimulateEnd(&estimate));
    if (own.ranks > 1 && estimate.estimatedTime <= 0)
      return wrong("estimated " + std::to_string(estimate.estimatedTime));
    return wrong(differs("input", data.get(), std::vector<float>(1000, 1.0f)));
  });
}

INSTANTIATE_FOR_EVERY_WORLD(Membership);

// One rank waits inside a collective for a peer that never comes; another thread aborts both.
TEST(OnHostAbort, ReleasesARankThatWaitsInsideACall) {
  auto world = World::of_threads(2);
  ASSERT_NE(world, nullptr);
  const Rank waiting = world->ranks().front();
  std::atomic<bool> entering{false};
  ncclResult_t result = ncclSuccess;
  std::thread caller([&] {
    float value = 1;
    entering = true;
    result = nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, waiting.comm, nullptr);
  });
  while (!entering) std::this_thread::yield();
  world->abort();
  caller.join();
  EXPECT_NE(text_of(result), text_of(ncclSuccess));
}

TEST(OnHostAbort, IsReportedToThePeersAsARemoteErrorThatNamesTheRank) {
  auto world = World::of_threads(2);
  ASSERT_NE(world, nullptr);
  world->run([](const Rank& own, Buffers&) -> Verdict {
    if (own.rank == 1) return verdict_of("CommAbort", nccl().CommAbort(own.comm));
    float value = 1;
    const ncclResult_t result =
        nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, own.comm, nullptr);
    const std::string said = nccl().GetLastError(own.comm);
    nccl().CommAbort(own.comm);
    if (result != ncclRemoteError) return wrong("got " + text_of(result) + " (" + said + ")");
    return said.find("rank 1") != std::string::npos ? Verdict{} : wrong("'" + said + "'");
  });
  world->forget();
}

// Case C12: a rank that cannot join ends the creation for all instead of leaving them waiting.
TEST(OnHostInit, RanksThatDisagreeOnTheSizeOfTheirWorldAllFail) {
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  ncclResult_t results[2] = {ncclSuccess, ncclSuccess};
  std::thread other([&] {
    ncclComm_t comm = nullptr;
    results[1] = nccl().CommInitRank(&comm, 3, id, 1);
  });
  ncclComm_t comm = nullptr;
  results[0] = nccl().CommInitRank(&comm, 2, id, 0);
  other.join();
  EXPECT_NE(text_of(results[0]), text_of(ncclSuccess));
  EXPECT_NE(text_of(results[1]), text_of(ncclSuccess));
}

TEST(OnHostInit, TwoRanksOfOneNumberAllFail) {
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  ncclResult_t results[2] = {ncclSuccess, ncclSuccess};
  std::thread other([&] {
    ncclComm_t comm = nullptr;
    results[1] = nccl().CommInitRank(&comm, 3, id, 1);
  });
  ncclComm_t comm = nullptr;
  results[0] = nccl().CommInitRank(&comm, 3, id, 1);
  other.join();
  EXPECT_NE(text_of(results[0]), text_of(ncclSuccess));
  EXPECT_NE(text_of(results[1]), text_of(ncclSuccess));
}

}  // namespace
}  // namespace sabot::conformance
