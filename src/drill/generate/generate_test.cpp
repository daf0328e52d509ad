// From the log of a baseline to cases.
#include "drill/generate/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "drill/cases.hpp"
#include "scenario/print.hpp"

namespace sabot::drill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLog[] = {
    "[sabot] rank 0 GetUniqueId #1",
    "[sabot] rank 0 CommInitRank #1",
    "[sabot] rank 1 CommInitRank #1",
    "[sabot] rank 0 AllReduce #1 count=8 float32 sum comm=c0 stream=0x0 in-place",
    "[sabot] rank 1 AllReduce #1 count=8 float32 sum comm=c0 stream=0x0 in-place",
    "[sabot] rank 0 AllReduce #2 count=8 float32 sum comm=c0 stream=0x0 group=1.1",
    "[sabot] rank 0 AllReduce #3 count=8 float32 sum comm=c0 stream=0x0",
    "[sabot] rank 0 AllReduce #3 count=8 float32 sum comm=c0 stream=0x0 returned ncclSystemError",
    "[sabot] rank 0 AllReduce #4 count=8 float32 sum comm=c0 stream=0x0",
    "[sabot] rank 0 CommDestroy #1 comm=c0",
    "loss 0.17",
};

std::vector<Calls> calls_of_log() {
  Census census;
  for (const char* const line : kLog) census.add(line);
  return census.calls();
}

const Calls& find(const std::vector<Calls>& calls, abi::FunctionId function, int rank) {
  for (const Calls& one : calls)
    if (one.function == function && one.rank == rank) return one;
  static const Calls kNone;
  return kNone;
}

Generate wanted(std::vector<std::string> actions, std::vector<Phase> phases) {
  Generate generate;
  generate.actions = std::move(actions);
  generate.phases = std::move(phases);
  return generate;
}

std::vector<std::string> lines_of(const Generated& generated) {
  std::vector<std::string> lines;
  for (const PlannedCase& planned : generated.cases)
    lines.push_back(scenario::to_line(planned.scenario.faults.at(0)));
  return lines;
}

TEST(BaselineCalls, AreCountedByFunctionCommAndRank) {
  const std::vector<Calls> calls = calls_of_log();
  EXPECT_EQ(calls.size(), 6U);
  const Calls& reduced = find(calls, abi::FunctionId::kAllReduce, 0);
  EXPECT_EQ(reduced.count, 4U) << "a call that returned an error has two lines";
  EXPECT_EQ(reduced.comm, "c0");
  EXPECT_EQ(reduced.first_in_group, 2U);
  EXPECT_EQ(find(calls, abi::FunctionId::kAllReduce, 1).count, 1U);
  EXPECT_EQ(find(calls, abi::FunctionId::kCommInitRank, 1).comm, "");
}

TEST(BaselineCalls, LogThatHeldLinesBackIsNotTrusted) {
  Census census;
  census.add("[sabot] 12 lines held back (SABOT_LOG_RATE)");
  EXPECT_FALSE(census.is_complete());
}

TEST(GeneratedCases, MeetTheCallOfTheirPhase) {
  const std::vector<Calls> calls = calls_of_log();
  const auto lines = [&](Phase phase) {
    return lines_of(generate(calls, wanted({"error(SystemError)"}, {phase}), 1, "p").value());
  };
  EXPECT_THAT(lines(Phase::kFirst),
              ElementsAre("fault: AllReduce[rank=0,comm=c0,attempt=0,nth=1,budget=1]="
                          "error(SystemError)",
                          "fault: AllReduce[rank=1,comm=c0,attempt=0,nth=1,budget=1]="
                          "error(SystemError)"));
  EXPECT_THAT(lines(Phase::kLast), ElementsAre(HasSubstr("AllReduce[rank=0,comm=c0,attempt=0,"
                                                         "nth=4")));
  EXPECT_THAT(lines(Phase::kGroup), ElementsAre(HasSubstr("nth=2")));
  EXPECT_THAT(lines(Phase::kInit), ElementsAre(HasSubstr("CommInitRank[rank=0,attempt=0,nth=1"),
                                               HasSubstr("CommInitRank[rank=1,attempt=0,nth=1")));
  EXPECT_THAT(lines(Phase::kTeardown), ElementsAre(HasSubstr("CommDestroy[rank=0,comm=c0")));
}

TEST(GeneratedCases, SteadyCallIsNeitherTheFirstNorTheLast) {
  const std::vector<Calls> calls = calls_of_log();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Generated generated =
        generate(calls, wanted({"hang"}, {Phase::kSteady}), seed, "p").value();
    ASSERT_EQ(generated.cases.size(), 1U) << "rank 1 has only one call";
    const std::uint64_t nth = *generated.cases[0].scenario.faults[0].when.nth;
    EXPECT_GE(nth, 2U);
    EXPECT_LE(nth, 3U);
  }
}

TEST(GeneratedCases, TheSameSeedDrawsTheSameSampleAndEachActionIsInIt) {
  const std::vector<Calls> calls = calls_of_log();
  Generate generate_three = wanted({"error(SystemError)", "hang", "crash(SIGKILL)"},
                                   {Phase::kInit, Phase::kFirst, Phase::kSteady, Phase::kLast});
  generate_three.budget = 3;
  const Generated once = generate(calls, generate_three, 42, "p").value();
  EXPECT_EQ(lines_of(once), lines_of(generate(calls, generate_three, 42, "p").value()));
  EXPECT_EQ(once.cases.size(), 3U);
  EXPECT_EQ(once.left_out, 15U);
  std::set<scenario::ActionKind> kinds;
  for (const PlannedCase& planned : once.cases)
    kinds.insert(planned.scenario.faults[0].action.kind);
  EXPECT_EQ(kinds.size(), 3U);
}

TEST(GeneratedCases, OtherSeedsDrawOtherSamples) {
  const std::vector<Calls> calls = calls_of_log();
  Generate one =
      wanted({"error(SystemError)"}, {Phase::kInit, Phase::kFirst, Phase::kSteady, Phase::kLast});
  one.budget = 1;
  std::set<std::string> drawn;
  for (std::uint64_t seed = 0; seed < 64; ++seed)
    drawn.insert(lines_of(generate(calls, one, seed, "p").value()).at(0));
  EXPECT_GE(drawn.size(), 4U);
}

TEST(GeneratedCases, RanksAndCallsNarrowTheChoice) {
  const std::vector<Calls> calls = calls_of_log();
  Generate narrow = wanted({"hang"}, {Phase::kInit, Phase::kFirst});
  narrow.ranks = scenario::NumberSet::of(1);
  narrow.calls = {"ncclAllReduce"};
  EXPECT_THAT(lines_of(generate(calls, narrow, 1, "p").value()),
              ElementsAre(HasSubstr("AllReduce[rank=1")));
}

TEST(GeneratedCases, CallThatTheBaselineNeverMakesIsAnErrorThatNamesThoseItMakes) {
  Generate missing = wanted({"hang"}, {Phase::kFirst});
  missing.calls = {"Broadcast"};
  const Result<Generated> generated = generate(calls_of_log(), missing, 1, "plan.toml:7");
  ASSERT_FALSE(generated.ok());
  EXPECT_EQ(generated.error().message(),
            "plan.toml:7: the baseline makes no call that is asked for here; it calls AllReduce "
            "(up to 4 times on 2 ranks)");
}

TEST(GeneratedCases, ActionThatFitsNoCallIsAnError) {
  const Result<Generated> generated =
      generate(calls_of_log(), wanted({"corrupt(zero)"}, {Phase::kTeardown}), 1, "plan.toml:7");
  ASSERT_FALSE(generated.ok());
  EXPECT_THAT(generated.error().message(),
              HasSubstr("plan.toml:7: the action 'corrupt(zero)' fits none of the calls"));
}

TEST(CaseList, NamesAreDistinctAndExpectationsInherited) {
  Plan plan;
  plan.file = "plan.toml";
  plan.expect.emplace();
  plan.expect->outcomes = scenario::bit_of(scenario::Outcome::kRecovers);
  Listed listed;
  listed.name = "twice";
  listed.scenario.faults.emplace_back();
  plan.scenarios = {listed, listed};
  const CaseList list = cases_of(plan, {}).value();
  ASSERT_EQ(list.cases.size(), 2U);
  EXPECT_EQ(list.cases[0].name, "twice");
  EXPECT_EQ(list.cases[1].name, "twice (2)");
  EXPECT_TRUE(list.cases[1].states_expectation);
  EXPECT_EQ(list.cases[1].expect.outcomes, plan.expect->outcomes);
}

TEST(CaseList, ExpectationBeyondTheDeadlineIsRefused) {
  Plan plan;
  plan.file = "plan.toml";
  plan.deadline_ns = 10'000'000'000;
  Listed listed;
  listed.name = "late";
  listed.line = 4;
  listed.scenario.faults.emplace_back();
  listed.scenario.expect.emplace();
  listed.scenario.expect->finished_within_ns = 60'000'000'000;
  plan.scenarios = {listed};
  const Result<CaseList> list = cases_of(plan, {});
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().message(),
            "plan.toml:4: case 'late': 'finished_within' of 60s is longer than the deadline of "
            "10s, at which the job is ended; give a longer 'deadline'");
}

}  // namespace
}  // namespace sabot::drill
