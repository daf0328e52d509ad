// When a hold is let go, and when the thread that minds it ends.
#include "layer/hold/hold_watch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace sabot::layer {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A hold over a cell of its own.
struct Held {
  driver::GateCell cell;
  std::shared_ptr<Hold> hold;
  explicit Held(std::uint64_t limit_ns)
      : hold(std::make_shared<Hold>(Hold::Word(Hold::Word{}, &cell.release), nullptr, FaultId{},
                                    limit_ns)) {}
};

void add(HeldStreams& streams, Held& held, bool by_gpu = false) {
  streams.add(held.hold, held.cell, by_gpu);
}

TEST(HeldStreams, TheLimitCountsFromTheArrival) {
  HeldStreams streams;
  Held held(10 * kMs);
  add(streams, held);
  EXPECT_EQ(streams.look(0), HeldStreams::kArrivalSlice_ns);
  EXPECT_EQ(streams.look(100 * kMs), HeldStreams::kArrivalSlice_ns);
  EXPECT_EQ(held.hold->state(), Hold::kHeld);
  held.cell.arrival.store(1);
  EXPECT_EQ(streams.look(200 * kMs), HeldStreams::kDepartureSlice_ns);
  EXPECT_EQ(streams.look(207 * kMs), 3 * kMs);
  EXPECT_EQ(held.hold->state(), Hold::kHeld);
  streams.look(210 * kMs);
  EXPECT_EQ(held.hold->state(), Hold::kLetGo);
}

TEST(HeldStreams, AHoldWithoutLimitIsNeverLetGo) {
  HeldStreams streams;
  Held held(0);
  held.cell.arrival.store(1);
  add(streams, held);
  EXPECT_EQ(streams.look(1), HeldStreams::kDepartureSlice_ns);
  EXPECT_EQ(streams.look(~0ULL >> 1), HeldStreams::kDepartureSlice_ns);
  EXPECT_EQ(held.hold->state(), Hold::kHeld);
}

TEST(HeldStreams, WhatTheGpuMindsIsLeftToIt) {
  HeldStreams streams;
  Held held(kMs);
  held.cell.arrival.store(1);
  add(streams, held, true);
  streams.look(1);
  streams.look(50 * kMs);
  EXPECT_EQ(held.hold->state(), Hold::kHeld);
}

TEST(HeldStreams, AHoldIsOverOnceTheStreamHasPassed) {
  HeldStreams streams;
  Held held(0);
  add(streams, held);
  held.hold->end(Hold::kEnded);
  EXPECT_EQ(streams.look(1), HeldStreams::kDepartureSlice_ns);
  EXPECT_FALSE(held.hold->is_over());
  held.cell.departure.store(1);
  streams.look(2);
  EXPECT_TRUE(held.hold->is_over());
  EXPECT_TRUE(streams.empty());
}

TEST(HeldStreams, TheNearestLimitDecidesWhenToLookAgain) {
  HeldStreams streams;
  Held late(4 * kMs);
  Held soon(2 * kMs);
  late.cell.arrival.store(1);
  soon.cell.arrival.store(1);
  add(streams, late);
  add(streams, soon);
  EXPECT_EQ(streams.look(0), 2 * kMs);
}

// --- The thread ----------------------------------------------------------------------------------

template <typename Condition>
bool comes_true(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(HoldWatchThread, LetsGoAndEndsWhenNothingIsHeld) {
  HoldWatch watch;
  Held held(kMs);
  held.cell.arrival.store(1);
  ASSERT_TRUE(watch.expect().ok());
  watch.add(held.hold, held.cell, false);
  EXPECT_TRUE(comes_true([&] { return held.hold->state() == Hold::kLetGo; }));
  EXPECT_TRUE(watch.is_running());
  held.cell.departure.store(1);
  EXPECT_TRUE(comes_true([&] { return held.hold->is_over(); }));
  EXPECT_TRUE(comes_true([&] { return !watch.is_running(); }));
}

TEST(HoldWatchThread, EndsWhereNothingCameOfWhatWasExpected) {
  HoldWatch watch;
  ASSERT_TRUE(watch.expect().ok());
  watch.cancel();
  EXPECT_TRUE(comes_true([&] { return !watch.is_running(); }));
}

TEST(HoldWatchThread, RunsAgainForTheNextHold) {
  HoldWatch watch;
  for (int round = 0; round < 3; ++round) {
    Held held(kMs);
    held.cell.arrival.store(1);
    ASSERT_TRUE(watch.expect().ok());
    watch.add(held.hold, held.cell, false);
    EXPECT_TRUE(comes_true([&] { return held.hold->state() == Hold::kLetGo; }));
    held.cell.departure.store(1);
    EXPECT_TRUE(comes_true([&] { return !watch.is_running(); }));
  }
}

TEST(HoldWatchThread, EndsWithTheWatchAndLetsNothingGo) {
  Held held(0);
  {
    HoldWatch watch;
    ASSERT_TRUE(watch.expect().ok());
    watch.add(held.hold, held.cell, false);
  }
  EXPECT_EQ(held.hold->state(), Hold::kHeld);
}

TEST(HoldWatchThread, IsNotWaitedForInAForkedChild) {
  auto watch = std::make_unique<HoldWatch>();
  Held held(0);
  ASSERT_TRUE(watch->expect().ok());
  watch->add(held.hold, held.cell, false);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    watch.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sabot::layer
