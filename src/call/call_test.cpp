// Numbering, labels, groups and lives of communicators, with an engine that only answers who it is.
#include <gtest/gtest.h>

#include <thread>

#include "call/boundary.hpp"
#include "call/last_error.hpp"

namespace sabot::call {
namespace {

using abi::Call;
using abi::FunctionId;

ncclComm_t handle(int number) { return reinterpret_cast<ncclComm_t>(0x1000L + number * 64L); }

struct FakeEngine {
  abi::ApiTable table{};
  FakeEngine() {
    table.CommUserRank = [](void*, Call*, ncclComm_t, int* rank) { return *rank = 1, ncclSuccess; };
    table.CommCount = [](void*, Call*, ncclComm_t, int* count) { return *count = 4, ncclSuccess; };
  }
  abi::Api api() { return {&table, this}; }
};

struct BoundaryTest : testing::Test {
  FakeEngine engine;
  Boundary boundary{-1, 0};
  ThreadState thread{};

  Call enter(FunctionId function, ncclComm_t comm) {
    Call call;
    call.function = function;
    call.comm = comm;
    boundary.enter(call, thread, engine.api());
    return call;
  }
  void init(int number, int rank, int ranks, char id_byte, const ncclConfig_t* config = nullptr) {
    ncclComm_t comm = handle(number);
    ncclUniqueId id{};
    id.internal[0] = id_byte;
    Call call;
    call.function = FunctionId::kCommInitRank;
    call.rank = rank;
    call.comm_ranks = ranks;
    boundary.enter(call, thread, engine.api());
    boundary.created(call, thread, ncclSuccess, {&comm, 1, config, &id});
  }
};

TEST_F(BoundaryTest, CallsAreNumberedPerFunctionAndCollectivesPerCommunicator) {
  init(1, 0, 2, 'a');
  EXPECT_EQ(enter(FunctionId::kAllReduce, handle(1)).nth, 1u);
  EXPECT_EQ(enter(FunctionId::kBroadcast, handle(1)).nth, 1u);
  const Call third = enter(FunctionId::kAllReduce, handle(1));
  EXPECT_EQ(third.nth, 2u);
  EXPECT_EQ(third.nth_collective, 3u);
  EXPECT_STREQ(third.comm_label, "c0");
  EXPECT_EQ(third.rank, 0);
  EXPECT_EQ(enter(FunctionId::kCommCount, handle(1)).nth_collective, 0u);
}

TEST_F(BoundaryTest, RootCommunicatorsAreLabelledInOrderOfCreationAndRanksOfOneShareTheLabel) {
  init(1, 0, 2, 'a');
  init(2, 1, 2, 'a');
  init(3, 0, 1, 'b');
  EXPECT_STREQ(enter(FunctionId::kAllReduce, handle(2)).comm_label, "c0");
  EXPECT_STREQ(enter(FunctionId::kAllReduce, handle(3)).comm_label, "c1");
}

TEST_F(BoundaryTest, SplitsAreLabelledUnderTheirParentAndAskTheEngineForTheirRank) {
  init(1, 0, 2, 'a');
  ncclComm_t child = handle(5);
  Call split = enter(FunctionId::kCommSplit, handle(1));
  boundary.created(split, thread, ncclSuccess, {&child, 1, nullptr, nullptr});
  const Call call = enter(FunctionId::kAllReduce, child);
  EXPECT_STREQ(call.comm_label, "c0/s0");
  EXPECT_EQ(call.rank, 1);
  EXPECT_EQ(call.comm_ranks, 4);
  EXPECT_EQ(call.world_rank, 0);
}

TEST(WorldRank, IsTheEnvironmentsWhereTheProcessHoldsOneRankElseTheRankInTheRootComm) {
  FakeEngine engine;
  Boundary boundary(7, 0);
  ThreadState thread{};
  const auto init = [&](int number, int rank, char id_byte) {
    ncclComm_t comm = handle(number);
    ncclUniqueId id{};
    id.internal[0] = id_byte;
    Call call;
    call.rank = rank;
    call.comm_ranks = 8;
    call.function = FunctionId::kCommInitRank;
    boundary.created(call, thread, ncclSuccess, {&comm, 1, nullptr, &id});
  };
  const auto world_rank = [&](int number) {
    Call call;
    call.function = FunctionId::kAllReduce;
    call.comm = handle(number);
    boundary.enter(call, thread, engine.api());
    return call.world_rank;
  };
  init(1, 3, 'a');
  EXPECT_EQ(world_rank(1), 7);
  init(2, 4, 'a');
  EXPECT_EQ(world_rank(1), 3);
  EXPECT_EQ(world_rank(2), 4);
}

TEST_F(BoundaryTest, ACommunicatorCreatedInAGroupExistsOnceTheOutermostGroupEnds) {
  ncclComm_t comm = nullptr;
  const Call start = enter(FunctionId::kGroupStart, nullptr);
  boundary.leave(start, thread, ncclSuccess);
  Call init = enter(FunctionId::kCommInitRank, nullptr);
  init.rank = 1;
  init.comm_ranks = 2;
  EXPECT_EQ(init.group, 1u);
  EXPECT_EQ(init.group_position, 1u);
  boundary.created(init, thread, ncclSuccess, {&comm, 1, nullptr, nullptr});
  comm = handle(1);
  EXPECT_EQ(boundary.registry().find(comm), nullptr);
  const Call end = enter(FunctionId::kGroupEnd, nullptr);
  boundary.leave(end, thread, ncclSuccess);
  ASSERT_NE(boundary.registry().find(comm), nullptr);
  EXPECT_EQ(boundary.registry().find(comm)->rank, 1);
  EXPECT_EQ(enter(FunctionId::kAllReduce, comm).group, 0u);
}

TEST_F(BoundaryTest, AnUnknownHandleIsAdoptedAndADestroyedOneIsNot) {
  EXPECT_EQ(enter(FunctionId::kAllReduce, handle(9)).rank, 1);
  enter(FunctionId::kCommDestroy, handle(9));
  EXPECT_TRUE(boundary.registry().is_retired(handle(9)));
  EXPECT_STREQ(enter(FunctionId::kAllReduce, handle(9)).comm_label, "");
  init(9, 0, 2, 'z');
  const Call reused = enter(FunctionId::kAllReduce, handle(9));
  EXPECT_STREQ(reused.comm_label, "c1");
  EXPECT_EQ(reused.nth, 1u);
}

TEST_F(BoundaryTest, ARefusedDestroyLeavesTheCommunicatorWithItsNumbers) {
  init(1, 0, 1, 'a');
  enter(FunctionId::kAllReduce, handle(1));
  const Call destroy = enter(FunctionId::kCommDestroy, handle(1));
  boundary.leave(destroy, thread, ncclSystemError);
  EXPECT_EQ(enter(FunctionId::kAllReduce, handle(1)).nth, 2u);
}

TEST_F(BoundaryTest, AShortConfigIsReadOnlyAsFarAsItGoes) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "never read";
  config.size = offsetof(ncclConfig_t, commName);
  init(1, 0, 1, 'a', &config);
  EXPECT_TRUE(boundary.registry().find(handle(1))->nonblocking);
  EXPECT_STREQ(boundary.registry().find(handle(1))->name, "");
}

TEST_F(BoundaryTest, ARealErrorMakesOurOlderTextGiveWayToTheLibrarys) {
  Call faulted = enter(FunctionId::kAllReduce, handle(9));
  set_last_error("injected");
  faulted.injected = true;
  boundary.leave(faulted, thread, ncclSystemError);
  EXPECT_STREQ(last_error(), "injected");
  const Call fine = enter(FunctionId::kAllReduce, handle(9));
  boundary.leave(fine, thread, ncclSuccess);
  EXPECT_STREQ(last_error(), "injected");
  const Call failed = enter(FunctionId::kAllReduce, handle(9));
  boundary.leave(failed, thread, ncclInvalidUsage);
  EXPECT_EQ(last_error(), nullptr);
}

TEST_F(BoundaryTest, AGroupOfOneLaneIsNoneOfAnother) {
  init(1, 0, 1, 'a');
  const auto lane_call = [&](FunctionId function, abi::Lane lane, ncclComm_t comm) {
    Call call;
    call.function = function;
    call.lane = lane;
    call.comm = comm;
    boundary.enter(call, thread, engine.api());
    return call;
  };
  const Call start = enter(FunctionId::kGroupStart, nullptr);
  boundary.leave(start, thread, ncclSuccess);
  ncclComm_t pending = nullptr;
  Call init_call = enter(FunctionId::kCommInitRank, nullptr);
  boundary.created(init_call, thread, ncclSuccess, {&pending, 1, nullptr, nullptr});
  pending = handle(2);

  EXPECT_EQ(lane_call(FunctionId::kAllReduce, abi::Lane::kAnnounced, handle(1)).group, 0u);
  const Call beside = lane_call(FunctionId::kGroupStart, abi::Lane::kBeside, nullptr);
  EXPECT_EQ(beside.group_depth, 0);
  boundary.leave(beside, thread, ncclSuccess);
  EXPECT_EQ(lane_call(FunctionId::kAllReduce, abi::Lane::kBeside, handle(1)).group, 2u);
  boundary.leave(lane_call(FunctionId::kGroupEnd, abi::Lane::kBeside, nullptr), thread,
                 ncclSuccess);
  EXPECT_EQ(boundary.registry().find(pending), nullptr) << "its own group is still open";

  EXPECT_EQ(enter(FunctionId::kAllReduce, handle(1)).group, 1u);
  boundary.leave(enter(FunctionId::kGroupEnd, nullptr), thread, ncclSuccess);
  EXPECT_NE(boundary.registry().find(pending), nullptr);
}

TEST_F(BoundaryTest, AnAnnouncedCommunicatorIsLabelledLikeAnyAndNoEngineIsAskedAboutIt) {
  init(1, 0, 2, 'a');
  const int key = 0;
  Birth birth;
  birth.handle = &key;
  birth.rank = 3;
  birth.ranks = 8;
  birth.lane = abi::Lane::kAnnounced;
  birth.name = "of a proxy";
  boundary.registry().create(birth);
  Call call;
  call.function = FunctionId::kAllReduce;
  call.lane = abi::Lane::kAnnounced;
  call.comm = &key;
  call.has_count = true;
  call.count = 5;
  call.bytes = 77;
  boundary.enter(call, thread, {});
  EXPECT_STREQ(call.comm_label, "c1");
  EXPECT_STREQ(call.comm_name, "of a proxy");
  EXPECT_EQ(call.rank, 3);
  EXPECT_EQ(call.comm_ranks, 8);
  EXPECT_EQ(call.nth_collective, 1u);
  EXPECT_EQ(call.bytes, 77u) << "without a type of NCCL's the bytes are the announcer's";
}

TEST(LastError, AThreadSeesItsOwnTextElseTheNewestOfTheProcess) {
  std::thread([] { set_last_error("from another thread"); }).join();
  EXPECT_STREQ(last_error(), "from another thread");
  set_last_error("mine");
  EXPECT_STREQ(last_error(), "mine");
  EXPECT_STREQ(take_last_error(), "mine");
  EXPECT_EQ(take_last_error(), nullptr);
  EXPECT_EQ(last_error(), nullptr);
}

}  // namespace
}  // namespace sabot::call
