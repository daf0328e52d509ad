// What goes wrong between ranks: mismatched calls (C13), dead peers (C14), aborts, leaving, idle
// waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "engine/host/ranks_fixture.hpp"

namespace sabot::host {
namespace {

using schedule::Collective;

struct Buffers {
  std::vector<float> in = std::vector<float>(1 << 16, 1.0f);
  std::vector<float> out = std::vector<float>(1 << 18);
};

Operation call(Buffers& buffers, Collective collective, std::uint64_t count, int root = 0) {
  Operation operation;
  operation.collective = collective;
  operation.count = count;
  operation.root = root;
  operation.input = buffers.in.data();
  operation.output = buffers.out.data();
  return operation;
}

// Runs one call on each rank, each its own; gives the messages, "" for success.
std::vector<std::string> outcomes(Ranks& ranks, const std::vector<Operation>& calls) {
  std::vector<std::string> messages(calls.size());
  ranks.each([&](int rank) {
    const Status ran = ranks[rank].run(calls[static_cast<std::size_t>(rank)]);
    if (!ran.ok()) messages[static_cast<std::size_t>(rank)] = ran.error().message();
  });
  return messages;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(C13Mismatch, OfTheCountIsAnErrorOnAllRanksThatNamesBothShapes) {
  Ranks ranks(2);
  Buffers a, b;
  const Operation same = call(a, Collective::kAllReduce, 4);
  Operation same_b = call(b, Collective::kAllReduce, 4);
  EXPECT_THAT(outcomes(ranks, {same, same_b}), testing::ElementsAre("", ""));
  EXPECT_THAT(outcomes(ranks, {same, same_b}), testing::ElementsAre("", ""));
  const std::string expected =
      "rank 1 called AllReduce count=8 float32 sum, but rank 0 called AllReduce count=6 float32 "
      "sum "
      "(collective 3 of this communicator)";
  EXPECT_THAT(
      outcomes(ranks, {call(a, Collective::kAllReduce, 6), call(b, Collective::kAllReduce, 8)}),
      testing::Each(expected));
  // It stays unusable, on every rank, with the same words.
  EXPECT_THAT(outcomes(ranks, {same, same_b}), testing::Each(expected));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks[r].async_error().error().message(), expected);
    EXPECT_EQ(ranks[r].async_error().error().code(), Code::kInvalidUsage);
    EXPECT_FALSE(ranks[r].finalize().ok());
  }
}

struct Pair {
  const char* name;
  Operation first;
  Operation second;
  std::string expected;
};

TEST(C13Mismatch, OfAnythingIsFound) {
  Buffers a, b;
  const auto typed = [](Operation operation, DataType type) {
    operation.type = type;
    return operation;
  };
  const auto reduced = [](Operation operation, ReduceOp op) {
    operation.op = op;
    return operation;
  };
  const Operation sum_a = call(a, Collective::kAllReduce, 300);
  const Operation sum_b = call(b, Collective::kAllReduce, 300);
  const std::string end = " (collective 1 of this communicator)";
  const std::string sum = "AllReduce count=300 float32 sum";
  const Pair pairs[] = {
      {"type", sum_a, typed(sum_b, DataType::kInt32),
       "rank 1 called AllReduce count=300 int32 sum, but rank 0 called " + sum},
      {"op", sum_a, reduced(sum_b, ReduceOp::kMax),
       "rank 1 called AllReduce count=300 float32 max, but rank 0 called " + sum},
      {"collective", sum_a, call(b, Collective::kAllGather, 300),
       "rank 1 called AllGather count=300 float32, but rank 0 called " + sum},
      {"root, both wait", call(a, Collective::kBroadcast, 300, 1),
       call(b, Collective::kBroadcast, 300, 0),
       "rank 1 called Broadcast count=300 float32 root=0, but rank 0 called Broadcast count=300 "
       "float32 root=1"},
      {"size class", call(a, Collective::kAllReduce, 4), call(b, Collective::kAllReduce, 60000),
       "rank 1 called AllReduce count=60000 float32 sum, but rank 0 called AllReduce count=4 "
       "float32 "
       "sum"},
  };
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.name);
    Ranks ranks(2);
    EXPECT_THAT(outcomes(ranks, {pair.first, pair.second}), testing::Each(pair.expected + end));
  }
}

TEST(C13Mismatch, ReachesARankThatHadAlreadyLeftTheCall) {
  Ranks ranks(2);
  Buffers a, b;
  // The root of a broadcast waits for nobody; neither does a call with nothing to move.
  ASSERT_TRUE(ranks[0].run(call(a, Collective::kBroadcast, 6)).ok());
  const Status late = ranks[1].run(call(b, Collective::kBroadcast, 8));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(ranks[0].async_error().error().message(), late.error().message());
  EXPECT_EQ(ranks[0].run(call(a, Collective::kBroadcast, 6)).error().message(),
            late.error().message());
}

TEST(C13Mismatch, OfZeroAgainstSomethingIsFoundThoughNothingWasSent) {
  Ranks ranks(2);
  Buffers a, b;
  ASSERT_TRUE(ranks[0].run(call(a, Collective::kAllReduce, 0)).ok());
  const Status late = ranks[1].run(call(b, Collective::kAllReduce, 8));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(
      late.error().message(),
      "rank 1 called AllReduce count=8 float32 sum, but rank 0 called AllReduce count=0 float32 "
      "sum (collective 1 of this communicator)");
}

TEST(C13Mismatch, OfOneRankAmongFourStopsAllFour) {
  Ranks ranks(4);
  Buffers b[4];
  std::vector<Operation> calls;
  for (int r = 0; r < 4; ++r)
    calls.push_back(call(b[r], Collective::kAllReduce, r == 2 ? 20001 : 20000));
  for (const std::string& message : outcomes(ranks, calls))
    EXPECT_THAT(message, testing::HasSubstr("AllReduce count=20001 float32 sum"));
}

TEST(C14DeadPeer, AWaitingRankLearnsWhoDied) {
  Ranks ranks(3);
  Buffers a, b;
  std::vector<std::string> messages(3);
  ranks.each([&](int rank) {
    if (rank == 1) {
      ranks.liveness.kill(1);
      return;
    }
    Buffers mine;
    const Status ran = ranks[rank].run(call(mine, Collective::kAllReduce, 100));
    EXPECT_EQ(ran.error().code(), Code::kRemote);
    EXPECT_EQ(ran.error().peer(), 1);
    messages[static_cast<std::size_t>(rank)] = ran.error().message();
  });
  EXPECT_EQ(messages[0], "rank 1 died (test)");
  EXPECT_EQ(messages[2], "rank 1 died (test)");
}

TEST(C14DeadPeer, AnIdleRankLearnsItFromItsAsyncError) {
  Ranks ranks(2);
  EXPECT_TRUE(ranks[0].async_error().ok());
  ranks.liveness.kill(1);
  const auto start = std::chrono::steady_clock::now();
  Status status;
  while (status.ok() && seconds_since(start) < 5) {
    status = ranks[0].async_error();
    std::this_thread::yield();
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message(), "rank 1 died (test)");
}

// Ranks as processes; rank 1 is killed by SIGKILL in the middle of large all-reduces.
TEST(C14DeadPeer, AKilledProcessIsNamedByEverySurvivorWithinSeconds) {
  constexpr int kWorld = 3;
  auto segment = std::shared_ptr<link::Segment>(
      std::move(link::Segment::create(link::Geometry::for_ranks(kWorld, 2))).value());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t victim = fork();
  if (victim == 0) {
    auto end = std::move(Endpoint::open(segment, 1, nullptr)).value();
    Buffers mine;
    for (int i = 0;; ++i) {
      if (!end->run(call(mine, Collective::kAllReduce, 50000)).ok()) _exit(1);
      if (i == 3 && write(ready[1], "x", 1) != 1) _exit(2);
    }
  }
  link::FakeLiveness liveness;
  liveness.watch(1, victim);
  std::thread killer([&] {
    char byte;
    if (read(ready[0], &byte, 1) == 1) kill(victim, SIGKILL);
  });
  std::vector<std::thread> survivors;
  std::string messages[kWorld];
  double waited[kWorld] = {};
  for (const int rank : {0, 2})
    survivors.emplace_back([&, rank] {
      auto end = std::move(Endpoint::open(segment, rank, &liveness)).value();
      Buffers mine;
      Status ran;
      auto last = std::chrono::steady_clock::now();
      while (ran.ok()) {
        last = std::chrono::steady_clock::now();
        ran = end->run(call(mine, Collective::kAllReduce, 50000));
      }
      waited[rank] = seconds_since(last);
      messages[rank] = ran.error().message();
    });
  for (std::thread& survivor : survivors) survivor.join();
  killer.join();
  waitpid(victim, nullptr, 0);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(messages[rank], "rank 1 died (test)");
    EXPECT_LT(waited[rank], 5.0);
  }
  close(ready[0]);
  close(ready[1]);
}

TEST(Abort, FromAnotherThreadEndsAWaitingCallAndItsPeers) {
  Ranks ranks(3);
  std::string messages[3];
  Code codes[3] = {};
  ranks.each([&](int rank) {
    if (rank == 2) return;  // never comes
    Buffers mine;
    std::thread aborter;
    if (rank == 1) aborter = std::thread([&] { ranks[1].abort(); });
    const Status ran = ranks[rank].run(call(mine, Collective::kAllGather, 1000));
    if (aborter.joinable()) aborter.join();
    codes[rank] = ran.error().code();
    messages[rank] = ran.error().message();
  });
  EXPECT_EQ(codes[1], Code::kAborted);
  EXPECT_EQ(messages[1], "this communicator was aborted by its own rank 1");
  EXPECT_EQ(ranks[1].async_error().error().code(), Code::kAborted);
  EXPECT_EQ(codes[0], Code::kRemote);
  EXPECT_EQ(messages[0], "rank 1 aborted its communicator");
}

TEST(Abort, OfOneRankLeavesTheOthersTheirSendAndReceive) {
  Ranks ranks(3);
  ranks[2].abort();
  int value = 7, got = 0;
  Operation send, recv;
  send.kind = Operation::Kind::kSend;
  send.peer = 1;
  send.input = &value;
  recv.kind = Operation::Kind::kRecv;
  recv.peer = 0;
  recv.output = &got;
  send.count = recv.count = 1;
  send.type = recv.type = DataType::kInt32;
  EXPECT_TRUE(ranks[0].run(send).ok());
  EXPECT_TRUE(ranks[1].run(recv).ok());
  EXPECT_EQ(got, 7);
  EXPECT_TRUE(ranks[0].async_error().ok());
}

TEST(Abort, AnUnfinishedTaskThatIsDroppedAborts) {
  Ranks ranks(2);
  Buffers mine;
  {
    Task task;
    ASSERT_TRUE(ranks[0].start(task, call(mine, Collective::kAllReduce, 10)).ok());
    EXPECT_EQ(task.advance(), Progress::kBlocked);
  }
  EXPECT_TRUE(ranks[0].aborted());
  EXPECT_EQ(ranks[1].run(call(mine, Collective::kAllReduce, 10)).ok(), true)
      << "what rank 0 had sent before still counts";
  EXPECT_EQ(ranks[1].run(call(mine, Collective::kAllReduce, 10)).error().message(),
            "rank 0 aborted its communicator");
}

TEST(Leaving, WhileAPeerStillWaitsIsAnErrorThere) {
  Ranks ranks(2);
  Buffers mine;
  ranks.close(1);
  const Status ran = ranks[0].run(call(mine, Collective::kAllReduce, 10));
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code(), Code::kRemote);
  EXPECT_EQ(ran.error().message(),
            "rank 1 destroyed its communicator while rank 0 still waits for it");
}

TEST(Leaving, AndThenEndingTheProcessIsNotDying) {
  Ranks ranks(3);
  Buffers a, b;
  ranks.close(2);
  ranks.liveness.kill(2);
  ranks.each([&](int rank) {
    if (rank == 2) return;
    int value = rank, got = -1;
    Operation send, recv;
    send.kind = Operation::Kind::kSend;
    recv.kind = Operation::Kind::kRecv;
    send.peer = recv.peer = 1 - rank;
    send.input = &value;
    recv.output = &got;
    send.count = recv.count = 1;
    send.type = recv.type = DataType::kInt32;
    ASSERT_TRUE(ranks[rank].run(send).ok());
    ASSERT_TRUE(ranks[rank].run(recv).ok());
    EXPECT_EQ(got, 1 - rank);
    EXPECT_TRUE(ranks[rank].async_error().ok());
  });
}

TEST(C17Fork, AChildThatDropsAnInheritedEndpointDoesNotLeaveForItsParent) {
  Ranks ranks(2);
  const pid_t child = fork();
  if (child == 0) {
    ranks[0].abort();
    ranks.close(1);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ranks.segment()->presence(0).load(), link::Presence::kPresent);
  EXPECT_EQ(ranks.segment()->presence(1).load(), link::Presence::kPresent);
}

TEST(Finalize, WaitsUntilPeersHaveTakenWhatWasSent) {
  Ranks ranks(2);
  Buffers a, b;
  ASSERT_TRUE(ranks[0].run(call(a, Collective::kBroadcast, 1000)).ok());
  EXPECT_EQ(ranks[0].advance_finalize(), Progress::kBlocked);
  ASSERT_TRUE(ranks[1].run(call(b, Collective::kBroadcast, 1000)).ok());
  EXPECT_EQ(ranks[0].advance_finalize(), Progress::kDone);
  EXPECT_TRUE(ranks[0].finalize().ok());
}

TEST(Endpoints, OneRankCanBeOpenedOnce) {
  Ranks ranks(2);
  const auto again = Endpoint::open(ranks.segment(), 1, nullptr);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message(), "opening rank 1: somebody has opened this rank already");
  EXPECT_FALSE(Endpoint::open(ranks.segment(), 2, nullptr).ok());
}

double cpu_seconds_of_thread() {
  timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

TEST(Waiting, RanksBoundToDifferentProcessorsAreNotOversubscribed) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two processors";
  auto segment = std::shared_ptr<link::Segment>(
      std::move(link::Segment::create(link::Geometry::for_ranks(2, 1))).value());
  std::unique_ptr<Endpoint> ends[2];
  for (int rank = 0, cpu = 0; rank < 2; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof(one), &one);
      ends[rank] = std::move(Endpoint::open(segment, rank, nullptr)).value();
    }).join();
    // Until the last one has come, what the creator saw counts.
    EXPECT_EQ(ends[0]->oversubscribed(), rank == 0);
    ++rank;
  }
}

// A rank that waits long must leave the processor to others: below 5 % after 10 ms.
TEST(Waiting, CostsNextToNothingAfterTenMilliseconds) {
  for (const bool oversubscribed : {false, true}) {
    Waiter waiter(oversubscribed);
    const auto start = std::chrono::steady_clock::now();
    while (seconds_since(start) < 0.010) waiter.pause();
    const double spent_before = cpu_seconds_of_thread();
    const auto later = std::chrono::steady_clock::now();
    while (seconds_since(later) < 0.2) waiter.pause();
    EXPECT_LT(cpu_seconds_of_thread() - spent_before, 0.05 * seconds_since(later))
        << (oversubscribed ? "oversubscribed" : "a processor for each");
  }
}

TEST(Waiting, EightRanksOnTwoProcessorsGetThroughThousandsOfCalls) {
  Ranks ranks(8);
  ranks.each([&](int rank) {
    Buffers mine;
    for (int i = 0; i < 3000; ++i) {
      const Status ran = ranks[rank].run(call(mine, Collective::kAllReduce, 1));
      ASSERT_TRUE(ran.ok());
      ASSERT_EQ(mine.out[0], 8.0f);
    }
  });
}

}  // namespace
}  // namespace sabot::host
