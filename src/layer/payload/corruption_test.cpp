// Goal: a corrupt plan touches the elements it names and no other byte, is the same every time, and
// leaves the caller's input as it was. Method: every function and type over guarded buffers; the
// number formats against values worked out by hand and against exhaustive round trips.
#include "layer/payload/corruption.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "layer/payload/payload_fixture.hpp"

namespace sabot::layer {
namespace {

using scenario::Act;
using scenario::CorruptKind;
using scenario::Moment;

constexpr CorruptKind kKinds[] = {CorruptKind::kBitFlip, CorruptKind::kNan, CorruptKind::kScale,
                                  CorruptKind::kZero, CorruptKind::kStale};
constexpr int kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

Act corrupt(CorruptKind kind, Moment moment, std::uint64_t elements, double factor = 1.5) {
  Act act;
  act.kind = scenario::ActionKind::kCorrupt;
  act.corrupt = kind;
  act.moment = moment;
  act.elements = elements;
  act.factor = factor;
  return act;
}

CorruptionPlan plan_of(const Act& act, std::uint64_t bits, const abi::Call& call) {
  Result<CorruptionPlan> plan = corruption_of(act, bits, call);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  return plan.ok() ? *plan : CorruptionPlan{};
}
std::string refusal(const Act& act, const abi::Call& call) {
  const Result<CorruptionPlan> plan = corruption_of(act, 1, call);
  return plan.ok() ? "none" : plan.error().message();
}
std::vector<std::uint64_t> places_of(const CorruptionPlan& plan) {
  std::vector<std::uint64_t> places;
  for (std::uint32_t i = 0; i < plan.count; ++i) places.push_back(plan.places[i].element);
  return places;
}

TEST(Corruption, StaysWithinTheBufferAndItsPlacesForEveryFunctionTypeWorldAndCount) {
  std::uint64_t checked = 0;
  for (const std::uint64_t count : {1U, 2U, 7U, 63U, 100U})
    for (const CorruptKind kind : kKinds)
      for (const Moment moment : {Moment::kBefore, Moment::kAfter})
        for_each_call(count, {1, 2, 3}, {0, 5, 6, 7, 10}, [&](const Given& given) {
          MadeCall made(given);
          const bool is_input = moment == Moment::kBefore && kind != CorruptKind::kStale;
          Guarded& touched = is_input && given.function != Id::kBcast ? made.input : made.output;
          Guarded& other = is_input && given.function != Id::kBcast ? made.output : made.input;
          if ((is_input ? input_bytes(given) : output_bytes(given)) == 0) {
            EXPECT_NE(refusal(corrupt(kind, moment, 5), made.call), "none");
            return;
          }
          const CorruptionPlan plan = plan_of(corrupt(kind, moment, 5), count, made.call);
          EXPECT_EQ(plan.buffer, touched.data());
          apply(plan);
          EXPECT_TRUE(touched.is_unchanged_outside());
          EXPECT_TRUE(other.is_unchanged());
          const std::vector<std::uint64_t> places = places_of(plan);
          const auto changed = touched.changed(abi::datatype_bytes(given.datatype));
          EXPECT_TRUE(std::includes(places.begin(), places.end(), changed.begin(), changed.end()));
          if (kind == CorruptKind::kBitFlip) {
            EXPECT_EQ(changed, places);
          }
          ++checked;
        });
  EXPECT_GT(checked, 3000U);
}

TEST(Corruption, OfAsManyElementsAsAskedForAtDifferentPlacesInOrder) {
  MadeCall made({Id::kAllReduce, 1000, 7, 2, 0, 0});
  for (std::uint64_t bits = 0; bits < 500; ++bits) {
    const auto places =
        places_of(plan_of(corrupt(CorruptKind::kZero, Moment::kBefore, 64), bits, made.call));
    EXPECT_EQ(places.size(), 64U);
    EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
    EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end());
    EXPECT_LT(places.back(), 1000U);
  }
}

TEST(Corruption, OfMoreElementsThanThereAreChangesAll) {
  MadeCall made({Id::kAllReduce, 3, 7, 2, 0, 0});
  const auto plan = plan_of(corrupt(CorruptKind::kZero, Moment::kBefore, 64), 9, made.call);
  EXPECT_EQ(places_of(plan), (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST(Corruption, IsTheSameForTheSameBitsAndReachesEveryPlaceAndBitForOthers) {
  MadeCall made({Id::kAllReduce, 16, 7, 2, 0, 0});
  const Act act = corrupt(CorruptKind::kBitFlip, Moment::kBefore, 1);
  std::set<std::uint64_t> places;
  std::set<std::uint64_t> flips;
  for (std::uint64_t bits = 0; bits < 2000; ++bits) {
    const CorruptionPlan one = plan_of(act, bits, made.call);
    const CorruptionPlan two = plan_of(act, bits, made.call);
    EXPECT_EQ(places_of(one), places_of(two));
    EXPECT_EQ(one.places[0].flip, two.places[0].flip);
    EXPECT_TRUE(std::has_single_bit(one.places[0].flip));
    places.insert(one.places[0].element);
    flips.insert(one.places[0].flip);
  }
  EXPECT_EQ(places.size(), 16U);
  EXPECT_EQ(flips.size(), 32U);
}

// Pinned, because scenarios that people keep must mean the same after an update of Sabot.
TEST(Corruption, OfSeededBitsHitsThePlacesThatItAlwaysHit) {
  MadeCall made({Id::kAllReduce, 1000000, 7, 2, 0, 0});
  const auto plan = plan_of(corrupt(CorruptKind::kBitFlip, Moment::kBefore, 3), 42, made.call);
  EXPECT_EQ(places_of(plan), (std::vector<std::uint64_t>{728178, 741563, 981524}));
  EXPECT_EQ(plan.places[0].flip, 1U << 17);
}

TEST(Corruption, FollowedByRestoreIsTheIdentityForInputForEveryKindAndType) {
  for (const int type : kTypes)
    for (const CorruptKind kind : kKinds)
      for_each_call(33, {1, 4}, {type}, [&](const Given& given) {
        if (kind == CorruptKind::kStale || given.function == Id::kBcast) return;
        MadeCall made(given);
        if (input_bytes(given) == 0) return;
        const CorruptionPlan plan = plan_of(corrupt(kind, Moment::kBefore, 64), 5, made.call);
        EXPECT_TRUE(plan.at_entry);
        restore(plan, apply(plan));
        EXPECT_TRUE(made.input.is_unchanged());
      });
}

TEST(Corruption, OfOutputComesAfterTheCallAndIsNotTakenBack) {
  MadeCall made({Id::kAllGather, 8, 7, 4, 1, 0});
  const auto plan = plan_of(corrupt(CorruptKind::kNan, Moment::kAfter, 64), 5, made.call);
  EXPECT_FALSE(plan.at_entry);
  EXPECT_EQ(plan.kept, 0U);
  EXPECT_EQ(plan.count, 32U);
}

TEST(Corruption, WithStaleGivesTheOutputItsFormerElementsBackAfterTheCallWroteThem) {
  MadeCall made({Id::kAllReduce, 100, 7, 2, 0, 0});
  const auto plan = plan_of(corrupt(CorruptKind::kStale, Moment::kBefore, 7), 5, made.call);
  EXPECT_TRUE(plan.at_entry);
  EXPECT_EQ(plan.buffer, made.output.data());
  const OldBits old = apply(plan);
  EXPECT_TRUE(made.output.is_unchanged());
  std::memset(made.output.data(), 0, made.output.size());  // the call
  restore(plan, old);
  EXPECT_EQ(made.output.changed(4).size(), 93U);
  EXPECT_TRUE(made.output.is_unchanged_outside());
}

TEST(Corruption, OfInputInPlaceIsNotTakenBackWhereTheOutputCoversIt) {
  MadeCall made({Id::kReduceScatter, 16, 7, 4, 2, 0});
  made.call.recv = made.input.data() + 2 * 16 * 4;  // in place: this rank's block
  const auto plan = plan_of(corrupt(CorruptKind::kZero, Moment::kBefore, 64), 5, made.call);
  restore(plan, apply(plan));
  std::vector<std::uint64_t> own_block;
  for (std::uint64_t i = 32; i < 48; ++i) own_block.push_back(i);
  EXPECT_EQ(made.input.changed(4), own_block);
}

TEST(Corruption, OfInputInPlaceIsTakenBackWhereThisRankHasNoOutput) {
  MadeCall made({Id::kReduce, 16, 7, 4, 2, 0});
  made.call.recv = made.input.data();
  const auto plan = plan_of(corrupt(CorruptKind::kZero, Moment::kBefore, 16), 5, made.call);
  restore(plan, apply(plan));
  EXPECT_TRUE(made.input.is_unchanged());
}

TEST(Corruption, IsRefusedWithATextWhereTheCallHasNoSuchData) {
  const Act before = corrupt(CorruptKind::kZero, Moment::kBefore, 1);
  const Act after = corrupt(CorruptKind::kZero, Moment::kAfter, 1);
  EXPECT_EQ(refusal(after, MadeCall({Id::kReduce, 16, 7, 4, 2, 0}).call),
            "ncclReduce has no output on rank 2, root is 0");
  EXPECT_EQ(refusal(before, MadeCall({Id::kBroadcast, 16, 7, 4, 2, 0}).call),
            "ncclBroadcast has no input on rank 2, root is 0");
  EXPECT_EQ(refusal(after, MadeCall({Id::kSend, 16, 7, 4, 2, 0}).call),
            "ncclSend has no output on rank 2");
  EXPECT_EQ(refusal(before, MadeCall({Id::kAllReduce, 0, 7, 4, 2, 0}).call),
            "ncclAllReduce moves 0 elements: there is nothing to corrupt");
  MadeCall null({Id::kAllReduce, 4, 7, 4, 2, 0});
  null.call.send = nullptr;
  EXPECT_EQ(refusal(before, null.call), "ncclAllReduce: the input buffer is NULL");
  EXPECT_EQ(refusal(before, abi::Call{.function = Id::kCommAbort}), "ncclCommAbort moves no data");
}

std::uint64_t value_after(CorruptKind kind, DataType type, std::uint64_t old, double factor = 2) {
  abi::Call call;
  call.function = Id::kAllReduce;
  call.count = 1;
  call.datatype = static_cast<int>(type);
  call.recv = &old;
  apply(plan_of(corrupt(kind, Moment::kAfter, 1, factor), 3, call));
  return old;
}

TEST(Corruption, ToNanGivesEachFloatItsQuietNanAndIntegersAllOnes) {
  const auto nan = [](DataType type) { return value_after(CorruptKind::kNan, type, 0); };
  EXPECT_EQ(nan(DataType::kFloat16), 0x7fffU);
  EXPECT_EQ(nan(DataType::kBfloat16), 0x7fffU);
  EXPECT_TRUE(
      std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(nan(DataType::kFloat32)))));
  EXPECT_TRUE(std::isnan(std::bit_cast<double>(nan(DataType::kFloat64))));
  EXPECT_EQ(nan(DataType::kFloat8e4m3), 0x7fU);
  EXPECT_EQ(nan(DataType::kFloat8e5m2), 0x7fU);
  EXPECT_EQ(nan(DataType::kInt8), 0xffU);
  EXPECT_EQ(nan(DataType::kUint64), ~std::uint64_t{0});
}

TEST(Corruption, ToZeroClearsTheElementAlone) {
  EXPECT_EQ(value_after(CorruptKind::kZero, DataType::kBfloat16, 0x1111222233334444),
            0x1111222233330000U);
}

std::uint64_t f32(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t f64(double value) { return std::bit_cast<std::uint64_t>(value); }

TEST(Scaled, FloatsAreMultipliedAndRoundedToNearestEven) {
  EXPECT_EQ(scaled(DataType::kFloat32, f32(3.0F), 1.5), f32(4.5F));
  EXPECT_EQ(scaled(DataType::kFloat64, f64(-0.1), 10), f64(-1.0));
  EXPECT_EQ(scaled(DataType::kFloat16, 0x3c00, 1.5), 0x3e00U);  // 1 → 1.5
  EXPECT_EQ(scaled(DataType::kFloat16, 0x0001, 0.5), 0x0000U);  // half of the smallest: to even
  EXPECT_EQ(scaled(DataType::kFloat16, 0x0003, 0.5), 0x0002U);  // 1.5 smallest: to even
  EXPECT_EQ(scaled(DataType::kFloat16, 0x8400, 0.5), 0x8200U);  // into the subnormals
  EXPECT_EQ(scaled(DataType::kFloat16, 0x3c01, 1024), 0x6401U);
  EXPECT_EQ(scaled(DataType::kBfloat16, 0x3f80, -2), 0xc000U);   // 1 → -2
  EXPECT_EQ(scaled(DataType::kFloat8e4m3, 0x38, 1.5), 0x3cU);    // 1 → 1.5
  EXPECT_EQ(scaled(DataType::kFloat8e5m2, 0x3c, 1.125), 0x3cU);  // 1.125 is halfway: to even
  EXPECT_EQ(scaled(DataType::kFloat8e5m2, 0x3d, 1.1), 0x3eU);    // 1.375 is halfway: to even
}

TEST(Scaled, OverflowIsInfinityForFloat16AndTheLargestNumberForFloat8) {
  EXPECT_EQ(scaled(DataType::kFloat16, 0x7bff, 2), 0x7c00U);
  EXPECT_EQ(scaled(DataType::kFloat16, 0xfbff, 1.0003), 0xfc00U);
  EXPECT_EQ(scaled(DataType::kBfloat16, 0x7f7f, 4), 0x7f80U);
  EXPECT_EQ(scaled(DataType::kFloat8e4m3, 0x7e, 2), 0x7eU);
  EXPECT_EQ(scaled(DataType::kFloat8e5m2, 0xfb, 2), 0xfbU);
  EXPECT_EQ(scaled(DataType::kFloat32, f32(3e38F), 2), f32(std::numeric_limits<float>::infinity()));
}

TEST(Scaled, IntegersRoundAndStayWithinTheirRange) {
  EXPECT_EQ(scaled(DataType::kInt8, 100, 1.5), 127U);
  EXPECT_EQ(scaled(DataType::kInt8, 0x9c, 1.5), 0x80U);  // -100 → -128
  EXPECT_EQ(scaled(DataType::kUint8, 100, 1.5), 150U);
  EXPECT_EQ(scaled(DataType::kUint8, 200, -1), 0U);
  EXPECT_EQ(scaled(DataType::kInt32, 5, 0.5), 2U);  // 2.5: to even
  EXPECT_EQ(scaled(DataType::kInt32, static_cast<std::uint32_t>(-7), 1),
            static_cast<std::uint32_t>(-7));
  EXPECT_EQ(scaled(DataType::kInt64, std::uint64_t{1} << 62, 4),
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(scaled(DataType::kUint64, ~std::uint64_t{0}, 2), ~std::uint64_t{0});
}

TEST(Scaled, ByOneKeepsEveryPatternOfTheShortFloatsExceptThatANanIsQuiet) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const std::uint64_t patterns = std::uint64_t{1} << 8 * bytes_of(type);
    const std::uint64_t quiet_nan = patterns / 2 - 1;
    // Where NaNs begin and infinity is, by the definition of the formats.
    const std::uint64_t infinity = type == DataType::kFloat16      ? 0x7c00
                                   : type == DataType::kBfloat16   ? 0x7f80
                                   : type == DataType::kFloat8e4m3 ? 0x7e
                                                                   : 0x7c;
    for (std::uint64_t bits = 0; bits < patterns; ++bits) {
      const std::uint64_t magnitude = bits & quiet_nan;
      std::uint64_t wanted = magnitude > infinity ? quiet_nan : bits;
      if (type == DataType::kFloat8e5m2 && magnitude == infinity) wanted = bits - 1;  // saturates
      ASSERT_EQ(scaled(type, bits, 1), wanted) << name_of(type) << " " << bits;
    }
  }
}

TEST(Scaled, ByTwoAndThenByOneHalfGivesEveryShortFloatBackThatDidNotOverflow) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const std::uint64_t magnitudes = std::uint64_t{1} << (8 * bytes_of(type) - 1);
    for (std::uint64_t bits = 0; bits < magnitudes * 3 / 4; ++bits)
      ASSERT_EQ(scaled(type, scaled(type, bits, 2), 0.5), bits) << name_of(type) << " " << bits;
  }
}

}  // namespace
}  // namespace sabot::layer
