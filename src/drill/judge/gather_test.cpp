// What is read from the output of a job: steps, results, tails; and a whole case from its folder.
#include "drill/judge/gather.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "drill/judge/judge.hpp"
#include "run/recorder.hpp"
#include "scenario/parse.hpp"
#include "scenario/tally.hpp"

namespace sabot::drill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Matches = std::vector<std::vector<std::string>>;

TEST(StepsLost, RunLikeTheBaselineLostNone) {
  EXPECT_EQ(steps_lost_of({{"1"}, {"2"}, {"3"}}, {{"1"}, {"2"}, {"3"}}), 0U);
}

TEST(StepsLost, StepsThatAreDoneAgainAreLost) {
  EXPECT_EQ(steps_lost_of({{"1"}, {"2"}, {"3"}, {"2"}, {"3"}, {"4"}}, {{"4"}}), 2U);
}

TEST(StepsLost, StepsThatAreNeverReachedAreLost) {
  EXPECT_EQ(steps_lost_of({{"1"}, {"2"}}, {{"1"}, {"2"}, {"3"}, {"4"}, {"5"}}), 3U);
}

TEST(StepsLost, OfThoseWhoPrintTheOneWhoLostMostCounts) {
  EXPECT_EQ(steps_lost_of({{"1", "a"}, {"1", "b"}, {"2", "a"}, {"1", "b"}, {"2", "b"}}, {}), 1U);
}

TEST(StepsLost, WithoutAnyMatchNothingIsKnown) {
  EXPECT_EQ(steps_lost_of({}, {{"1"}}), std::nullopt);
  EXPECT_EQ(steps_lost_of({{"one"}}, {{"1"}}), std::nullopt);
}

TEST(CompareMatches, TheSameResultsInAnyOrderAgree) {
  const Check check = compare_matches({{"1", "x"}, {"0", "x"}}, {{"0", "x"}, {"1", "x"}});
  EXPECT_TRUE(check.ran && check.agrees);
}

// C15
TEST(CompareMatches, OneRankThatDiffersDecides) {
  const Check check = compare_matches({{"0", "x"}, {"1", "y"}}, {{"0", "x"}, {"1", "x"}});
  EXPECT_TRUE(check.ran);
  EXPECT_FALSE(check.agrees);
  EXPECT_EQ(check.text, "the baseline has '1 x', this run has '1 y'");
}

// C15
TEST(CompareMatches, RankThatPrintsNothingDiffers) {
  const Check check = compare_matches({{"0", "x"}}, {{"0", "x"}, {"1", "x"}});
  EXPECT_FALSE(check.agrees);
  EXPECT_EQ(check.text, "the baseline has '1 x'");
}

TEST(CompareMatches, BaselineWithoutResultsIsNoMeasure) {
  const Check check = compare_matches({}, {});
  EXPECT_FALSE(check.ran);
  EXPECT_EQ(check.text, "the baseline printed nothing that matches");
}

class GatheredCase : public testing::Test {
 protected:
  GatheredCase() {
    std::string pattern = testing::TempDir() + "sabot-drill-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~GatheredCase() override { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  Places places() const { return {CaseFolder(path_ + "/mine"), CaseFolder(path_ + "/baseline")}; }

  std::string path_;
};

TEST_F(GatheredCase, TheTailIsTheEndOfTheOutput) {
  write("log", "one\ntwo\nthree\n");
  EXPECT_THAT(tail_of(path_ + "/log", 2), ElementsAre("two", "three"));
  EXPECT_TRUE(tail_of(path_ + "/missing", 2).empty());
  write("long", std::string(100'000, 'x') + "\nlast\n");
  EXPECT_THAT(tail_of(path_ + "/long", 40), ElementsAre("last"));
}

TEST_F(GatheredCase, PatternsReadTheOutputOrAFile) {
  write("mine/output.log", "step 1\nother\nstep 2\n");
  write("mine/work/steps", "at 7\n");
  EXPECT_EQ(*matches_in({"stdout", "step ([0-9]+)"}, places()), (Matches{{"1"}, {"2"}}));
  EXPECT_EQ(*matches_in({"{work}/steps", "[0-9]+"}, places()), (Matches{{"7"}}));
  EXPECT_FALSE(matches_in({"{work}/gone", "x"}, places()).ok());
}

TEST_F(GatheredCase, UnfiredFaultIsExplainedFromTheTallies) {
  PlannedCase planned;
  planned.name = "far";
  planned.scenario =
      scenario::parse_line("far: AllReduce[rank=7]=error(SystemError)", "test").value();
  write("mine/run/config.json", "{}");
  run::RecorderOptions options;
  options.run_folder = path_ + "/mine/run";
  options.faults = {{"far", 0}};
  options.slot_bytes = sizeof(scenario::FaultTally);
  run::Recorder recorder(options);
  CaseFolder::Finished finished;
  finished.ending.started = true;
  const Evidence evidence = gather(planned, {}, places(), finished);
  EXPECT_TRUE(evidence.made_run);
  ASSERT_EQ(evidence.why_unfired.size(), 1U);
  EXPECT_THAT(evidence.why_unfired[0], HasSubstr("fault \"far\" did not fire: no call of "
                                                 "AllReduce was made"));
}

// A process that counts a firing and cannot write its line, as on a full disk.
TEST_F(GatheredCase, FiringThatLeftNoLineIsNoticed) {
  PlannedCase planned;
  planned.scenario = scenario::parse_line("x: AllReduce=error(SystemError)", "test").value();
  write("mine/run/config.json", "{}");
  run::RecorderOptions options;
  options.run_folder = path_ + "/mine/run";
  options.faults = {{"x", 0}};
  options.slot_bytes = sizeof(scenario::FaultTally);
  run::Recorder recorder(options);
  recorder.count_firing();
  CaseFolder::Finished finished;
  finished.ending.started = true;
  const Case one = judge(gather(planned, {}, places(), finished));
  EXPECT_EQ(one.outcome, Outcome::kNotRecorded);
  EXPECT_EQ(one.note, "could not record: 1 firings left no line in the journal");
}

TEST_F(GatheredCase, FinishedCaseReadsBackAsItWas) {
  const CaseFolder folder(path_ + "/mine");
  ASSERT_TRUE(folder.prepare().ok());
  EXPECT_FALSE(folder.finished().has_value());
  CaseFolder::Finished finished;
  finished.ending.started = true;
  finished.ending.exit_status = 7;
  finished.ending.stop = Stop::kDeadline;
  finished.ending.started_ns = 1'796'064'071'870'866'026;
  finished.ending.processes = {{4711, 1, 2}};
  finished.ending.stuck = {"process \"4711\""};
  finished.ending.leaked = {"/dev/shm/x"};
  finished.check = {true, false, "differs"};
  ASSERT_TRUE(folder.finish(finished).ok());
  const std::optional<CaseFolder::Finished> read = folder.finished();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(to_json(read->ending), to_json(finished.ending));
  EXPECT_TRUE(read->check.ran);
  EXPECT_FALSE(read->check.agrees);
  EXPECT_EQ(read->check.text, "differs");
}

TEST_F(GatheredCase, WhatAnInterruptedCaseLeftIsMovedAside) {
  const CaseFolder folder(path_ + "/mine");
  ASSERT_TRUE(folder.prepare().ok());
  write("mine/output.log", "half a line");
  ASSERT_TRUE(folder.prepare().ok());
  EXPECT_FALSE(std::filesystem::exists(folder.output()));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/mine.interrupted-1/output.log"));
}

}  // namespace
}  // namespace sabot::drill
