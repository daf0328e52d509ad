// What a job can be expected to do, and what it cannot be expected to do at once.
#include <gtest/gtest.h>

#include "scenario/parse.hpp"
#include "scenario/print.hpp"

namespace sabot::scenario {
namespace {

Result<Scenario> with(const std::string& expect) {
  return parse_toml(
      "sabot = 1\n[[fault]]\nname = \"a\"\nwhen = { call = \"AllReduce\" }\n"
      "do = { error = \"SystemError\" }\n[expect]\n" +
          expect,
      "s.toml");
}
// The refusals without file and line: [expect] begins in line 6.
std::string refusal(const std::string& expect) {
  const Result<Scenario> scenario = with(expect);
  if (scenario.ok()) return "accepted";
  const std::string& message = scenario.error().message();
  return message.substr(message.find(' ') + 1);
}

TEST(Expectation, EverythingThatCanBeExpectedIsReadAndPrinted) {
  const Result<Scenario> read = with(
      "outcome = \"recovers\"\ndetected_within = \"10s\"\nfinished_within = \"2m\"\n"
      "fired = { a = 1 }\ncheck = true\nsteps_lost = \"<=50\"\nattempts = \"2-3\"\n");
  ASSERT_TRUE(read.ok()) << read.error().message();
  const Expectation& expect = *read->expect;
  EXPECT_EQ(expect.outcomes, bit_of(Outcome::kRecovers));
  EXPECT_EQ(expect.check, true);
  EXPECT_TRUE(expect.steps_lost.contains(0) && expect.steps_lost.contains(50));
  EXPECT_FALSE(expect.steps_lost.contains(51));
  EXPECT_EQ(expect.attempts, NumberSet::of(Interval{2, 3}));
  const std::string text = to_toml(*read);
  EXPECT_EQ(text.substr(text.find("[expect]")),
            "[expect]\noutcome = \"recovers\"\ndetected_within = \"10s\"\n"
            "finished_within = \"120s\"\nfired = { \"a\" = 1 }\ncheck = true\n"
            "steps_lost = \"<=50\"\nattempts = \"2-3\"\n");
  EXPECT_TRUE(*parse_toml(text, "printed") == *read);
}

TEST(Expectation, AnOutcomeMayBeOneOfSeveral) {
  const std::uint32_t wanted = bit_of(Outcome::kCompletes) | bit_of(Outcome::kFailsCleanly);
  EXPECT_EQ(with("outcome = \"completes|fails-cleanly\"\n")->expect->outcomes, wanted);
  EXPECT_EQ(with("outcome = [\"fails-cleanly\", \"completes\"]\n")->expect->outcomes, wanted);
  EXPECT_EQ(outcome_text(wanted), "completes|fails-cleanly");
  for (const char* word : {"hangs", "dies-dirty", "wrong-result"})
    EXPECT_EQ(refusal("outcome = \"" + std::string(word) + "\"\n"), "accepted");
  EXPECT_EQ(refusal("outcome = \"complets\"\n"),
            "key 'expect.outcome': no outcome is called 'complets'; did you mean 'completes'?");
}

TEST(Expectation, AJobThatHangsDoesNotFinish) {
  EXPECT_EQ(refusal("outcome = \"hangs\"\nfinished_within = \"10s\"\n"),
            "key 'expect.finished_within': contradicts outcome = 'hangs': a job that hangs does "
            "not finish");
  EXPECT_EQ(refusal("outcome = \"hangs|fails-cleanly\"\nfinished_within = \"10s\"\n"), "accepted");
}

TEST(Expectation, OnlyAResultCanBeRightOrWrong) {
  EXPECT_EQ(refusal("outcome = \"fails-cleanly\"\ncheck = true\n"),
            "key 'expect.check': contradicts outcome = 'fails-cleanly': only a job that completes "
            "or recovers has a result that can be right");
  EXPECT_EQ(refusal("outcome = \"completes\"\ncheck = false\n"),
            "key 'expect.check': contradicts outcome = 'completes': a result that is not that of "
            "the baseline is \"wrong-result\"");
  EXPECT_EQ(refusal("outcome = \"wrong-result\"\ncheck = false\n"), "accepted");
  EXPECT_EQ(refusal("check = false\n"), "accepted");
  EXPECT_EQ(refusal("check = 1\n"),
            "key 'expect.check': expected true or false; found the number 1");
}

TEST(Expectation, StepsAreLostByJobsThatGoOn) {
  EXPECT_EQ(refusal("outcome = \"dies-dirty\"\nsteps_lost = 3\n"),
            "key 'expect.steps_lost': contradicts outcome = 'dies-dirty': a job that does not go "
            "on loses more than can be counted");
  EXPECT_EQ(refusal("outcome = \"completes\"\nsteps_lost = \">=1\"\n"),
            "key 'expect.steps_lost': contradicts outcome = 'completes': a job that ends as if "
            "nothing had happened loses none");
  EXPECT_EQ(refusal("outcome = \"completes\"\nsteps_lost = 0\n"), "accepted");
}

TEST(Expectation, AttemptsCountFromOne) {
  EXPECT_EQ(refusal("attempts = 0\n"),
            "key 'expect.attempts': a job is started at least once; found 0");
  EXPECT_EQ(with("attempts = \"<=2\"\n")->expect->attempts, NumberSet::of(Interval{1, 2}));
  EXPECT_EQ(refusal("outcome = \"completes\"\nattempts = 2\n"),
            "key 'expect.attempts': contradicts outcome = 'completes': a job that ends as if "
            "nothing had happened is started once");
}

TEST(Expectation, WithoutAFiringThereIsNothingToRecoverFrom) {
  EXPECT_EQ(refusal("outcome = \"recovers\"\nfired = { a = 0 }\n"),
            "key 'expect.fired': contradicts outcome = 'recovers': no fault is to fire, so nothing "
            "can lead to it");
  EXPECT_EQ(refusal("fired = { a = 0 }\ndetected_within = \"1s\"\n"),
            "key 'expect.detected_within': no fault is to fire, so there is nothing to detect");
  EXPECT_EQ(refusal("outcome = \"completes\"\nfired = { a = 0 }\n"), "accepted");
}

TEST(Expectation, EveryContradictionIsToldAtOnce) {
  EXPECT_EQ(refusal("outcome = \"hangs\"\nfinished_within = \"10s\"\ncheck = true\n"),
            "key 'expect.finished_within': contradicts outcome = 'hangs': a job that hangs does "
            "not finish\n"
            "s.toml:9: key 'expect.check': contradicts outcome = 'hangs': only a job that "
            "completes or recovers has a result that can be right");
}

}  // namespace
}  // namespace sabot::scenario
