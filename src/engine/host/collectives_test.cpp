// Every collective gives the right bits: all types, reductions, worlds, roots, aliasings and
// algorithms.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/host/ranks_fixture.hpp"

namespace sabot::host {
namespace {

using schedule::Algorithm;
using schedule::Collective;

Operation collective(int which, int type, int op, int root, std::uint64_t count) {
  Operation operation;
  operation.collective = static_cast<Collective>(which);
  operation.type = static_cast<DataType>(type);
  operation.op = static_cast<ReduceOp>(op);
  operation.root = root;
  operation.count = count;
  return operation;
}

// Runs it on all ranks at once and looks at every rank's result.
void expect_right(Ranks& ranks, const Operation& operation, bool in_place, std::uint64_t seed) {
  Trial trial(operation, ranks.world(), in_place, seed);
  std::vector<std::string> verdicts(static_cast<std::size_t>(ranks.world()));
  ranks.each([&](int rank) {
    const Status ran = ranks[rank].run(trial.operation(rank));
    verdicts[static_cast<std::size_t>(rank)] =
        ran.ok() ? trial.verdict(rank) : ran.error().message();
  });
  for (const std::string& verdict : verdicts) ASSERT_EQ(verdict, "");
}

class EveryCollective : public testing::TestWithParam<int> {};

TEST_P(EveryCollective, IsRightForAllTypesAndReductions) {
  Ranks ranks(small_geometry(3, 1));
  const bool reduces = schedule::has_reduction(static_cast<Collective>(GetParam()));
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int op = 0; op < (reduces ? kReduceOpCount : 1); ++op)
      for (const std::uint64_t count : {1, 5, 1500})
        expect_right(ranks, collective(GetParam(), type, op, 1, count), op % 2 == 1, count);
}

TEST_P(EveryCollective, IsRightForAllWorldsRootsCountsAndInPlace) {
  for (int world = 1; world <= 6; ++world) {
    Ranks ranks(small_geometry(world, 1));
    const bool rooted = schedule::has_root(static_cast<Collective>(GetParam()));
    for (int root = 0; root < (rooted ? world : 1); ++root)
      for (const std::uint64_t count : {0, 1, 2, 7, 12, 13, 100, 4097})
        for (const bool in_place : {false, true})
          expect_right(ranks, collective(GetParam(), 7, 0, root, count), in_place, count);
  }
}

TEST_P(EveryCollective, IsRightInProductSizedMemoryUpToMegabytes) {
  Ranks ranks(4);
  for (const std::uint64_t count : {3, 1000, 30001, 700001})
    expect_right(ranks, collective(GetParam(), 7, 4, 2, count), false, count);
}

TEST_P(EveryCollective, IsRightOnEveryAlgorithmThatOffersIt) {
  for (const Algorithm algorithm :
       {Algorithm::kFlat, Algorithm::kTwoPhase, Algorithm::kRing, Algorithm::kTree}) {
    Ranks ranks(small_geometry(5, 2), {algorithm});
    // Integers, so that any order of the reduction gives the same bits.
    for (const std::uint64_t count : {0, 1, 9, 3000, 20011})
      for (const bool in_place : {false, true})
        expect_right(ranks, collective(GetParam(), 2, 1, 3, count), in_place, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Host, EveryCollective, testing::Range(0, schedule::kCollectiveCount),
                         [](const auto& tested) {
                           return std::string(
                               schedule::name_of(static_cast<Collective>(tested.param)));
                         });

TEST(Collectives, OneThreadCanDriveAllRanks) {
  Ranks ranks(small_geometry(4, 2));
  Trial trial(collective(0, 9, 0, 0, 10000), 4, false, 1);
  Task tasks[4];
  for (int r = 0; r < 4; ++r) ASSERT_TRUE(ranks[r].start(tasks[r], trial.operation(r)).ok());
  int done = 0;
  for (int round = 0; round < 1000 && done < 4; ++round) {
    done = 0;
    for (Task& task : tasks) done += task.advance() == Progress::kDone ? 1 : 0;
  }
  ASSERT_EQ(done, 4);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(trial.verdict(r), "");
}

TEST(Collectives, SixtyFourRanksAreTheMost) {
  Ranks ranks(small_geometry(64, 64));
  for (const int which : {0, 1, 2, 5}) {
    Trial trial(collective(which, 7, 0, 0, 700), 64, false, 1);
    std::vector<Task> tasks(64);
    for (int r = 0; r < 64; ++r)
      ASSERT_TRUE(ranks[r].start(tasks[static_cast<std::size_t>(r)], trial.operation(r)).ok());
    std::size_t done = 0;
    for (int round = 0; round < 100000 && done < 64; ++round) {
      done = 0;
      for (Task& task : tasks) done += task.advance() == Progress::kDone ? 1u : 0u;
    }
    ASSERT_EQ(done, 64u);
    for (int r = 0; r < 64; ++r) EXPECT_EQ(trial.verdict(r), "");
  }
}

// Each rank a process of its own, as under a launcher; a child reports by its exit status.
TEST(Collectives, AreRightBetweenProcesses) {
  auto segment = std::shared_ptr<link::Segment>(
      std::move(link::Segment::create(link::Geometry::for_ranks(4, 2))).value());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 4; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      auto mapped = std::shared_ptr<link::Segment>(
          std::move(link::Segment::map(segment->descriptor())).value());
      auto end = std::move(Endpoint::open(mapped, rank, nullptr)).value();
      bool right = true;
      for (int which = 0; which < schedule::kCollectiveCount; ++which)
        for (const std::uint64_t count : {1, 1000, 300000}) {
          Trial trial(collective(which, 9, 4, 1, count), 4, false, count);
          right = right && end->run(trial.operation(rank)).ok() && trial.verdict(rank).empty();
        }
      _exit(right && end->finalize().ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Collectives, RunInTheOrderOfTheirNumbersWhateverThreadDrivesThem) {
  Ranks ranks(small_geometry(2, 2));
  Trial first(collective(0, 7, 0, 0, 5000), 2, false, 1);
  Trial second(collective(1, 7, 0, 0, 3000), 2, false, 2);
  ranks.each([&](int rank) {
    Task a, b;
    ASSERT_TRUE(ranks[rank].start(a, first.operation(rank)).ok());
    ASSERT_TRUE(ranks[rank].start(b, second.operation(rank)).ok());
    EXPECT_EQ(a.number(), 1u);
    EXPECT_EQ(b.number(), 2u);
    std::thread later([&] {
      while (b.advance() == Progress::kBlocked) std::this_thread::yield();
    });
    while (a.advance() == Progress::kBlocked) std::this_thread::yield();
    later.join();
    EXPECT_EQ(a.advance(), Progress::kDone);
    EXPECT_EQ(b.advance(), Progress::kDone);
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(first.verdict(r), "");
    EXPECT_EQ(second.verdict(r), "");
  }
}

// Many operations of all kinds and sizes back to back: slots are reused across collectives, some
// ranks run ahead (a broadcast's root waits for nobody), some collectives leave message numbers
// out.
TEST(Collectives, AnyMixBackToBackIsRight) {
  for (const int world : {2, 3, 5}) {
    Ranks ranks(small_geometry(world, 2));
    const std::uint64_t seed = 20240517 + static_cast<std::uint64_t>(world);
    std::vector<std::unique_ptr<Trial>> trials;
    Random random(seed);
    for (int i = 0; i < 300; ++i) {
      const auto pick = [&](std::uint64_t n) { return static_cast<int>(random.below(n)); };
      const std::uint64_t count = random.below(std::uint64_t{1} << random.below(13));
      trials.push_back(std::make_unique<Trial>(
          collective(pick(8), pick(12), pick(6), pick(static_cast<std::uint64_t>(world)), count),
          world, pick(2) == 0, random.next()));
    }
    ranks.each([&](int rank) {
      for (std::size_t i = 0; i < trials.size(); ++i) {
        const Status ran = ranks[rank].run(trials[i]->operation(rank));
        ASSERT_TRUE(ran.ok()) << ran.error().message();
        ASSERT_EQ(trials[i]->verdict(rank), "") << "operation " << i << ", seed " << seed;
      }
      EXPECT_TRUE(ranks[rank].finalize().ok());
    });
  }
}

}  // namespace
}  // namespace sabot::host
