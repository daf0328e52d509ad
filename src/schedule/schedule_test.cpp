// Schedules: every algorithm proved by symbolic execution over all small inputs, and the printed
// form.
#include "schedule/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "schedule/check.hpp"
#include "schedule/print.hpp"

namespace sabot::schedule {
namespace {

constexpr std::uint64_t kCounts[] = {0, 1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 65, 100, 257};

std::string name_of_case(const Request& request, const Plan& plan, const CheckOptions& options) {
  return describe(request) + ", " + describe(plan, request) +
         (options.in_place ? ", in place" : "") + ", " + std::to_string(options.slots) +
         " slots of " + std::to_string(options.slot_bytes) + " bytes";
}

// All counts, roots and aliasings of one collective on one algorithm, with slots so small that
// there are many chunks.
void prove(Collective collective, Algorithm algorithm, int world, std::uint64_t slot_bytes) {
  for (const std::uint64_t count : kCounts) {
    for (int root = 0; root < (has_root(collective) ? world : 1); ++root) {
      Request request{collective, DataType::kFloat32, ReduceOp::kSum, 0, world, root, count};
      Limits limits;
      limits.slots = 4;
      limits.slot_bytes = static_cast<std::uint32_t>(slot_bytes);
      const auto plan = plan_for(algorithm, request, limits);
      if (!plan) continue;
      for (const bool in_place : {false, true}) {
        const CheckOptions options{limits.slots, slot_bytes, in_place};
        const Status proved = check(request, *plan, options);
        ASSERT_TRUE(proved.ok()) << name_of_case(request, *plan, options) << ": "
                                 << proved.error().message();
      }
    }
  }
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsCorrectForAllCollectivesWorldsRootsCountsAndAliasings) {
  for (int collective = 0; collective < kCollectiveCount; ++collective)
    for (int world = 1; world <= 8; ++world)
      for (const std::uint64_t slot_bytes : {std::uint64_t{512}, std::uint64_t{65536}})
        prove(static_cast<Collective>(collective), GetParam(), world, slot_bytes);
}

INSTANTIATE_TEST_SUITE_P(Schedule, EveryAlgorithm,
                         testing::Values(Algorithm::kLocal, Algorithm::kFlat, Algorithm::kTwoPhase,
                                         Algorithm::kRing, Algorithm::kTree),
                         [](const auto& tested) {
                           std::string name(name_of(tested.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(Schedule, WhatTheChooserTakesIsCorrectAtEverySize) {
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    for (const int world : {1, 2, 3, 4, 9}) {
      for (std::uint64_t count = 1; count <= 9000; count = count * 7 + 3) {
        const Request request{static_cast<Collective>(collective),
                              DataType::kInt8,
                              ReduceOp::kSum,
                              0,
                              world,
                              0,
                              count};
        const Limits limits{4, 4096};
        const Plan plan = choose(request, limits);
        const CheckOptions options{limits.slots, limits.slot_bytes, false};
        const Status proved = check(request, plan, options);
        ASSERT_TRUE(proved.ok()) << name_of_case(request, plan, options) << ": "
                                 << proved.error().message();
      }
    }
  }
}

// The engine runs a small all-reduce without making a plan; the two must agree on what that is.
TEST(Schedule, OneFlatChunkIsWhatTheChooserTakesForASmallAllReduce) {
  const Limits limits;
  for (const int world : {2, 3, 4, 8, 64}) {
    for (std::uint64_t count = 1; count < 300000; count += count / 7 + 1) {
      const Request request{
          Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, world, 0, count};
      const Plan plan = choose(request, limits);
      const bool flat = plan.algorithm == Algorithm::kFlat && plan.chunk >= count;
      EXPECT_EQ(is_one_flat_chunk(count, 4, world, limits), flat) << describe(request);
    }
  }
}

TEST(Schedule, TheChooserDoesNotLookAtTheRank) {
  for (int rank = 0; rank < 5; ++rank) {
    const Request request{
        Collective::kReduceScatter, DataType::kBfloat16, ReduceOp::kAvg, rank, 5, 0, 123457};
    Request first = request;
    first.rank = 0;
    const Limits limits;
    EXPECT_EQ(choose(request, limits).chunk, choose(first, limits).chunk);
    EXPECT_EQ(choose(request, limits).algorithm, choose(first, limits).algorithm);
    EXPECT_EQ(Program(request, choose(request, limits)).message_count(),
              Program(first, choose(first, limits)).message_count());
  }
}

TEST(Schedule, PartialSumsAreNotOfferedWhereAResultMustRoundOnce) {
  const Request half{Collective::kAllReduce, DataType::kFloat16, ReduceOp::kSum, 0, 4, 0, 100};
  const Request average{Collective::kReduce, DataType::kFloat32, ReduceOp::kAvg, 0, 4, 0, 100};
  EXPECT_FALSE(plan_for(Algorithm::kRing, half, Limits{}).has_value());
  EXPECT_FALSE(plan_for(Algorithm::kTree, average, Limits{}).has_value());
  EXPECT_TRUE(plan_for(Algorithm::kTwoPhase, half, Limits{}).has_value());
}

TEST(Schedule, CollectiveNamesAreReadInAnySpelling) {
  EXPECT_EQ(parse_collective("allreduce"), Collective::kAllReduce);
  EXPECT_EQ(parse_collective("all_gather"), Collective::kAllGather);
  EXPECT_EQ(parse_collective("Reduce-Scatter"), Collective::kReduceScatter);
  EXPECT_EQ(parse_collective("allredoce"), std::nullopt);
}

// The checker must be able to fail: wrong plans for wrong slots, named with rank, step and rule.
TEST(Check, TooFewSlotsAreReportedAsAWaitWithoutEnd) {
  const Request request{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 2, 0, 256};
  const Plan plan{Algorithm::kFlat, 64};
  const Status proved = check(request, plan, {1, 4096, false});
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().message(),
            "rank 0, step 2 (put input[64..128) as message 1 for 1): waits for ever");
}

TEST(Check, AMessageLargerThanASlotIsReported) {
  const Request request{Collective::kBroadcast, DataType::kFloat64, ReduceOp::kSum, 0, 2, 1, 100};
  const Status proved = check(request, {Algorithm::kFlat, 100}, {4, 512, false});
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().message(),
            "rank 1, step 1 (put input[0..100) as message 0 for 0): does not fit into a slot");
}

TEST(Check, AnOverlapThatTheCollectiveDoesNotDefineIsReported) {
  // A ring broadcast in a world whose plan was made for another algorithm's chunking still works,
  // but a gather that claims the ring has no steps at all.
  const Request request{Collective::kGather, DataType::kInt32, ReduceOp::kSum, 0, 3, 0, 4};
  const Status proved = check(request, {Algorithm::kRing, 4}, {4, 512, false});
  ASSERT_FALSE(proved.ok());
  EXPECT_THAT(proved.error().message(), testing::HasSubstr("is not the element it has to be"));
}

TEST(Print, AFlatAllReduceReadsAsATable) {
  const Request request{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 2, 0, 6};
  EXPECT_EQ(print(request, choose(request, Limits{})),
            R"(AllReduce of 6 float32 (24B) on 2 ranks
flat: 1 chunk of 6 elements, 1 message a rank
rank  step  does    what
   0     1  put     input[0..6) as message 0 for 1
   0     2  reduce  input[0..6) with message 0 of 1 to output[0..6)
   1     1  put     input[0..6) as message 0 for 0
   1     2  reduce  input[0..6) with message 0 of 0 to output[0..6)
)");
}

TEST(Print, ATwoPhaseReduceShowsPartsAndIsCutWhereItIsLong) {
  const Request request{Collective::kReduce, DataType::kFloat32, ReduceOp::kSum, 0, 3, 1, 192};
  EXPECT_EQ(print(request, {Algorithm::kTwoPhase, 96}, 4),
            R"(Reduce of 192 float32 (768B) on 3 ranks, root 1
two-phase: 2 chunks of 96 elements, 4 messages a rank
rank  step  does    what
   0     1  put     input[0..96) but part 0 as message 0 for 1 2
   0     2  put     input[96..192) but part 0 as message 1 for 1 2
   0     3  reduce  input[0..32) with message 0 of 1 2 as message 2 for 1
   0     4  reduce  input[96..128) with message 1 of 1 2 as message 3 for 1
   1     1  put     input[0..96) but part 1 as message 0 for 0 2
   1     2  put     input[96..192) but part 1 as message 1 for 0 2
   1     3  reduce  input[32..64) with message 0 of 0 2 from 32 to output[32..64)
   1     4  reduce  input[128..160) with message 1 of 0 2 from 32 to output[128..160)
   1   ...  2 more
   2     1  put     input[0..96) but part 2 as message 0 for 0 1
   2     2  put     input[96..192) but part 2 as message 1 for 0 1
   2     3  reduce  input[64..96) with message 0 of 0 1 from 64 as message 2 for 1
   2     4  reduce  input[160..192) with message 1 of 0 1 from 64 as message 3 for 1
)");
}

}  // namespace
}  // namespace sabot::schedule
