// Number sets: one grammar for ranks, sizes and counts; equal meaning compares equal.
#include "scenario/number_set.hpp"

#include <gtest/gtest.h>

namespace sabot::scenario {
namespace {

NumberSet plain(std::string_view text) {
  return NumberSet::parse(text, NumberStyle::kPlain).value();
}
NumberSet bytes(std::string_view text) {
  return NumberSet::parse(text, NumberStyle::kBytes).value();
}
std::string error(std::string_view text, NumberStyle style = NumberStyle::kPlain) {
  const Result<NumberSet> set = NumberSet::parse(text, style);
  return set.ok() ? "accepted as " + set->to_string(style) : set.error().message();
}

TEST(NumberSet, EveryWayOfWritingTheSameNumbersIsTheSameSet) {
  EXPECT_EQ(plain("1,2,3"), plain("1-3"));
  EXPECT_EQ(plain("3..1000000,1,2"), plain("1-1000000"));
  EXPECT_EQ(plain(">=1"), plain("!=0"));
  EXPECT_EQ(plain(">3"), plain("4.."));
  EXPECT_EQ(plain("<4"), plain("..3"));
  EXPECT_EQ(plain(">=2 & <=5"), plain("2-5"));
  EXPECT_EQ(bytes(">=4KiB & <8KiB"), bytes("4096..8191"));
  EXPECT_EQ(plain(" = 7 "), plain("7"));
}

TEST(NumberSet, BothEndsOfARangeBelongToIt) {
  const NumberSet set = plain("3-7");
  EXPECT_FALSE(set.contains(2));
  EXPECT_TRUE(set.contains(3));
  EXPECT_TRUE(set.contains(7));
  EXPECT_FALSE(set.contains(8));
}

TEST(NumberSet, TheCanonicalTextIsTheShortestOneAndReadsBack) {
  EXPECT_EQ(plain("2,1,5-9,8-12").to_string(NumberStyle::kPlain), "1-2,5-12");
  EXPECT_EQ(plain("<3,>3").to_string(NumberStyle::kPlain), "!=3");
  EXPECT_EQ(plain("..7,9").to_string(NumberStyle::kPlain), "<=7,9");
  EXPECT_EQ(bytes(">=1048576").to_string(NumberStyle::kBytes), ">=1MiB");
  EXPECT_EQ(bytes("4KiB..1MiB").to_string(NumberStyle::kBytes), "4KiB..1MiB");
  EXPECT_EQ(bytes("1500").to_string(NumberStyle::kBytes), "1500B");
}

TEST(NumberSet, ConditionsThatExcludeEachOtherAreTheEmptySet) {
  EXPECT_TRUE(plain("<0").empty());
  EXPECT_TRUE(bytes(">=1MiB & <1KiB").empty());
}

TEST(NumberSet, WrongPartsAreNamedWithWhatToWriteInstead) {
  EXPECT_EQ(error("7-3"), "the range '7-3' is reversed; write '3-7'");
  EXPECT_EQ(error("1MiB..4KiB", NumberStyle::kBytes),
            "the range '1MiB..4KiB' is reversed; write '4KiB..1MiB'");
  EXPECT_EQ(error("-1"),
            "'-1' is below zero; write for instance 3, [1, 2], \"0-3\", \">=4\" or \"!=0\"");
  EXPECT_EQ(error("one"),
            "'one' is not a number; write for instance 3, [1, 2], \"0-3\", \">=4\" or \"!=0\"");
  EXPECT_EQ(error("1,,2"),
            "'' is empty; write for instance 3, [1, 2], \"0-3\", \">=4\" or \"!=0\"");
  EXPECT_EQ(error(">=4KB?", NumberStyle::kBytes),
            "'>=4KB?' is not a comparison with a number; write for instance 4096, \"4KiB\", "
            "\">=1MiB\" or \"4KiB..1MiB\"");
  EXPECT_EQ(error("3-"),
            "'3-' has no end; write for instance 3, [1, 2], \"0-3\", \">=4\" or \"!=0\"");
  EXPECT_EQ(
      error(".."),
      "'..' has neither a beginning nor an end; write for instance 3, [1, 2], \"0-3\", \">=4\" "
      "or \"!=0\"");
  EXPECT_EQ(
      error("99999999999999999999"),
      "'99999999999999999999' is not a number; write for instance 3, [1, 2], \"0-3\", \">=4\" or "
      "\"!=0\"");
}

}  // namespace
}  // namespace sabot::scenario
