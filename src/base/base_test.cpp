// The base vocabulary: units, nearest words, seeded randomness, errors that cannot be dropped.
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace sabot {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error(Code::kInvalidArgument, std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  const int once = SABOT_TRY(half(value));
  return SABOT_TRY(half(once));
}

TEST(Result, ReturnsTheFirstErrorWithTheLineWhereItWasBorn) {
  EXPECT_EQ(quarter(12).value(), 3);
  const Result<int> wrong = quarter(6);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message(), "3 is odd");
  EXPECT_EQ(wrong.error().code(), Code::kInvalidArgument);
  EXPECT_GT(wrong.error().line(), 0);
}

TEST(Result, ContextIsPrefixedOnTheWayUp) {
  const Error error = Error(Code::kSystem, "connection refused").context("joining rank 1");
  EXPECT_EQ(error.message(), "joining rank 1: connection refused");
}

TEST(Result, WithAnErrorLeavesNothingToDestroyWhenMovedFrom) {
  auto counter = std::make_shared<int>(0);
  Result<std::shared_ptr<int>> result = counter;
  Result<std::shared_ptr<int>> error = Error(Code::kSystem, "gone");
  result = std::move(error);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(error.ok());  // NOLINT: what is left of it is the question
  EXPECT_EQ(counter.use_count(), 1);
}

TEST(Units, BytesAreWrittenWithBinaryAndDecimalSuffixes) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("64k").value(), 65536u);
  EXPECT_EQ(parse_bytes("1MiB").value(), 1048576u);
  EXPECT_EQ(parse_bytes("1MB").value(), 1000000u);
  EXPECT_EQ(parse_bytes("1.5KiB").value(), 1536u);
  EXPECT_EQ(format_bytes(1048576), "1MiB");
  EXPECT_EQ(format_bytes(1500), "1500B");
}

TEST(Units, WrongQuantitiesSayWhatIsWrongAndWhatToWrite) {
  EXPECT_EQ(parse_bytes("1XB").error().message(),
            "'1XB' is not a size (unknown unit); write for instance 4096, 64KiB or 1MiB");
  EXPECT_EQ(parse_duration_ns("30").error().message(),
            "'30' is not a duration (the unit is missing); write for instance 200ms, 1.5s or 2m");
  EXPECT_FALSE(parse_bytes("99999999999T").ok());
  EXPECT_FALSE(parse_bytes("").ok());
  EXPECT_FALSE(parse_bytes("-1").ok());
}

TEST(Units, DurationsKeepThreeDigits) {
  EXPECT_EQ(parse_duration_ns("1.5s").value(), 1500000000u);
  EXPECT_EQ(format_duration_ns(1500000), "1.5ms");
  EXPECT_EQ(format_duration_ns(0), "0ns");
}

TEST(Text, NearestFindsATypoAndRejectsAnotherWord) {
  const std::vector<std::string_view> keys{"call", "rank", "budget"};
  EXPECT_EQ(nearest("rnak", keys), "rank");
  EXPECT_EQ(nearest("budgett", keys), "budget");
  EXPECT_EQ(nearest("completely-else", keys), std::nullopt);
}

TEST(Random, TheSameSeedGivesTheSameStreamEverywhere) {
  Random random(42);
  EXPECT_EQ(random.next(), 0xbdd732262feb6e95ULL);
  EXPECT_LT(Random(7).below(10), 10u);
  EXPECT_GE(unit_interval(mix(1)), 0.0);
  EXPECT_LT(unit_interval(~0ULL), 1.0);
}

}  // namespace
}  // namespace sabot
