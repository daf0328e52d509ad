// Verdicts from evidence written down: one story for every outcome, and for what decides between
// them. Times are milliseconds after the start of a run.
#include "drill/judge/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "scenario/parse.hpp"

namespace sabot::drill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kStartNs = 1'796'000'000'000'000'000;
constexpr std::uint64_t at(std::uint64_t ms) { return kStartNs + ms * 1'000'000; }

run::AttachRecord process(int rank, std::int64_t pid, int attempt, std::uint64_t ms) {
  run::AttachRecord record;
  record.rank = rank;
  record.pid = pid;
  record.attempt = attempt;
  record.started_ns = at(ms);
  return record;
}

run::JournalLine fired(const std::string& fault, int rank, std::uint64_t ms) {
  run::JournalLine line;
  line.fault = fault;
  line.action = "error(SystemError)";
  line.function = "AllReduce";
  line.comm = "c0";
  line.rank = line.world_rank = rank;
  line.nth = 3;
  line.pid = 100 + rank;
  line.epoch_ns = at(ms);
  return line;
}

run::SeenLine saw(run::SeenKind kind, int rank, std::uint64_t ms, int attempt = 0) {
  run::SeenLine line;
  line.kind = kind;
  line.function = kind == run::SeenKind::kCreated ? "CommInitRank" : "AllReduce";
  line.code = kind == run::SeenKind::kError ? "ncclRemoteError" : "";
  line.comm = "c0";
  line.rank = line.world_rank = rank;
  line.pid = 100 + 10 * attempt + rank;
  line.attempt = attempt;
  line.epoch_ns = at(ms);
  return line;
}

// Two ranks under "nic-dies", a run of one second that ended with status 0; nothing has fired.
Evidence two_ranks(const char* expect = "") {
  Evidence evidence;
  evidence.name = "a case";
  const std::string text = std::string(R"(sabot = 1
[[fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1, nth = 3 }
do = { error = "SystemError" }
)") + expect;
  evidence.scenario = scenario::parse_toml(text, "test").value();
  if (evidence.scenario.expect) evidence.expected = expected_of(*evidence.scenario.expect);
  evidence.deadline_ns = 10'000'000'000;
  evidence.made_run = true;
  evidence.ending.started = true;
  evidence.ending.started_ns = at(0);
  evidence.ending.finished_ns = at(1000);
  evidence.ending.processes = {{100, at(10), at(990)}, {101, at(10), at(990)}};
  evidence.attached = {process(0, 100, 0, 20), process(1, 101, 0, 20)};
  evidence.why_unfired = {R"(fault "nic-dies" did not fire: no call of AllReduce was made)"};
  return evidence;
}

Evidence fired_on_rank_1(const char* expect = "") {
  Evidence evidence = two_ranks(expect);
  evidence.journal = {fired("nic-dies", 1, 300)};
  evidence.why_unfired = {""};
  return evidence;
}

TEST(Judge, JobThatNobodyToldAnythingCompletes) {
  const Case one = judge(fired_on_rank_1("[expect]\noutcome = \"completes\"\n"));
  EXPECT_EQ(one.outcome, Outcome::kCompletes);
  EXPECT_TRUE(one.holds);
  EXPECT_EQ(one.attempts, 1U);
  EXPECT_EQ(one.fault_ns, at(300));
  EXPECT_EQ(one.detection_ns, std::nullopt);
  EXPECT_EQ(one.faults.at(0).where, "rank 1, AllReduce #3 on c0, attempt 0");
}

TEST(Judge, JobThatWasGivenAnErrorAndEndsWellRecovers) {
  Evidence evidence =
      fired_on_rank_1("[expect]\noutcome = \"recovers\"\ndetected_within = \"1s\"\n");
  evidence.seen = {saw(run::SeenKind::kError, 1, 301), saw(run::SeenKind::kError, 0, 340),
                   saw(run::SeenKind::kCreated, 0, 500), saw(run::SeenKind::kCreated, 1, 520)};
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kRecovers);
  EXPECT_TRUE(one.holds);
  EXPECT_EQ(one.detection_ns, 40'000'000U);
  EXPECT_EQ(one.recovery_ns, 220'000'000U) << "the slower rank counts";
  EXPECT_EQ(one.ranks.at(0).how, "error");
  EXPECT_EQ(one.ranks.at(0).code, "ncclRemoteError");
}

TEST(Judge, JobThatIsRestartedAndEndsWellRecovers) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"recovers\"\nattempts = 2\n");
  evidence.seen = {saw(run::SeenKind::kError, 1, 301)};
  evidence.ending.processes = {{100, at(10), at(400)},
                               {101, at(10), at(310)},
                               {110, at(500), at(990)},
                               {111, at(500), at(990)}};
  evidence.attached.push_back(process(0, 110, 1, 520));
  evidence.attached.push_back(process(1, 111, 1, 530));
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kRecovers);
  EXPECT_TRUE(one.holds) << testing::PrintToString(one.reasons);
  EXPECT_EQ(one.attempts, 2U);
  EXPECT_EQ(one.ranks.at(0).how, "ended") << "rank 0 was told nothing; its process was replaced";
  EXPECT_EQ(one.ranks.at(0).after_fault_ns, 100'000'000U);
  EXPECT_EQ(one.recovery_ns, 230'000'000U);
}

TEST(Judge, JobThatEndsByItselfWithAnotherStatusFailsCleanly) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"fails-cleanly\"\n");
  evidence.ending.exit_status = 1;
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kFailsCleanly);
  EXPECT_TRUE(one.holds);
  EXPECT_EQ(one.status_text, "exit status 1");
}

TEST(Judge, JobThatIsEndedAtTheDeadlineHangs) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"recovers\"\n");
  evidence.ending.stop = Stop::kDeadline;
  evidence.ending.signal = SIGKILL;
  evidence.ending.finished_ns = at(10'500);
  evidence.ending.processes = {{100, at(10), at(10'000)}, {101, at(10), at(2000)}};
  evidence.ending.stuck = {"process 100 (train): 1 thread, the first waits in futex_wait"};
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kHangs);
  EXPECT_FALSE(one.holds);
  EXPECT_THAT(one.reasons,
              ElementsAre("expected recovers, but the job hangs: it had not ended after 10s: "
                          "process 100 (train): 1 thread, the first waits in futex_wait"));
  EXPECT_EQ(one.ranks.at(0).how, "") << "what the drill ended learned nothing";
  EXPECT_EQ(one.ranks.at(1).how, "ended");
}

TEST(Judge, JobThatIsEndedByASignalDiesDirty) {
  Evidence evidence = fired_on_rank_1();
  evidence.ending.exit_status = 128 + SIGSEGV;
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kDiesDirty);
  EXPECT_EQ(one.status_text, "signal 11 (Segmentation fault)");
  EXPECT_THAT(one.reasons.at(0), HasSubstr("it was ended by signal 11"));
}

TEST(Judge, SignalThatTheFaultItselfSentIsNoDirt) {
  Evidence evidence = two_ranks();
  evidence.scenario = scenario::parse_toml(R"(sabot = 1
[[fault]]
name = "killed"
when = { call = "AllReduce", rank = 1 }
do = { crash = "SIGKILL" }
)",
                                           "test")
                          .value();
  evidence.journal = {fired("killed", 1, 300)};
  evidence.ending.exit_status = 128 + SIGKILL;
  EXPECT_EQ(judge(evidence).outcome, Outcome::kFailsCleanly);
  evidence.ending.exit_status = 128 + SIGSEGV;
  EXPECT_EQ(judge(evidence).outcome, Outcome::kDiesDirty);
}

TEST(Judge, JobThatLeavesAProcessBehindDiesDirtyWhateverItsStatus) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"completes\"\n");
  evidence.ending.leaked = {"process 4711 (worker)", "/dev/shm/x (4KiB)"};
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kDiesDirty);
  EXPECT_THAT(one.reasons, ElementsAre("expected completes, but the job dies dirty: it left "
                                       "behind: process 4711 (worker); /dev/shm/x (4KiB)"));
}

TEST(Judge, CheckThatDisagreesMakesSuccessAWrongResult) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"completes\"\n");
  evidence.has_check = true;
  evidence.check = {true, false, "the baseline has '1 abc', this run has '1 abd'"};
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kWrongResult);
  EXPECT_THAT(one.reasons.at(0), HasSubstr("this run has '1 abd'"));
  EXPECT_FALSE(one.holds);
}

TEST(Judge, WrongResultMayBeExpected) {
  Evidence evidence = fired_on_rank_1("[expect]\noutcome = \"wrong-result\"\ncheck = false\n");
  evidence.has_check = true;
  evidence.check = {true, false, "differs"};
  EXPECT_TRUE(judge(evidence).holds);
  evidence.check = {true, true, "agrees"};
  EXPECT_FALSE(judge(evidence).holds);
}

TEST(Judge, CheckThatCouldNotRunDoesNotHold) {
  Evidence evidence = fired_on_rank_1();
  evidence.has_check = true;
  evidence.check = {false, false, "cannot run 'check.sh': No such file or directory"};
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kCompletes);
  EXPECT_THAT(one.reasons, ElementsAre("the check did not run: cannot run 'check.sh': No such "
                                       "file or directory"));
}

// C19
TEST(Judge, FaultThatNeverFiredFailsTheCaseAndSaysWhy) {
  const Case one = judge(two_ranks("[expect]\noutcome = \"completes\"\n"));
  EXPECT_EQ(one.outcome, Outcome::kCompletes);
  EXPECT_FALSE(one.holds);
  EXPECT_THAT(one.reasons,
              ElementsAre(R"(fault "nic-dies" did not fire: no call of AllReduce was made)"));
  EXPECT_EQ(one.faults.at(0).fired_count, 0U);
}

TEST(Judge, FaultThatIsExpectedNotToFireMayStaySilent) {
  const Case one = judge(two_ranks("[expect]\nfired = { \"nic-dies\" = 0 }\n"));
  EXPECT_TRUE(one.holds) << testing::PrintToString(one.reasons);
}

TEST(Judge, FaultThatFiredMoreOftenThanExpectedFailsTheCase) {
  Evidence evidence = fired_on_rank_1("[expect]\nfired = { \"nic-dies\" = 1 }\n");
  evidence.journal.push_back(fired("nic-dies", 1, 400));
  EXPECT_THAT(judge(evidence).reasons, ElementsAre(R"(fault "nic-dies" fired 2 times, not 1)"));
}

TEST(Judge, FiringThatWasRefusedIsNone) {
  Evidence evidence = fired_on_rank_1();
  run::JournalLine refusal = fired("nic-dies", 1, 300);
  refusal.refused = "the stream is being captured";
  evidence.journal.push_back(refusal);
  const Case one = judge(evidence);
  EXPECT_FALSE(one.holds);
  EXPECT_THAT(one.reasons.at(0), HasSubstr("the stream is being captured"));
  EXPECT_EQ(one.fault_ns, 0U);
}

// C15
TEST(Judge, OneRankThatNeverLearnedFailsTheDetectionOfAll) {
  Evidence evidence =
      fired_on_rank_1("[expect]\noutcome = \"recovers\"\ndetected_within = \"5s\"\n");
  evidence.seen = {saw(run::SeenKind::kError, 0, 310)};
  const Case one = judge(evidence);
  EXPECT_FALSE(one.holds);
  EXPECT_THAT(one.reasons, ElementsAre("rank 1 never learned of the fault"));
}

// C15
TEST(Judge, TheSlowestRankDecidesWhetherDetectionWasInTime) {
  Evidence evidence =
      fired_on_rank_1("[expect]\noutcome = \"recovers\"\ndetected_within = \"100ms\"\n");
  evidence.seen = {saw(run::SeenKind::kError, 0, 310), saw(run::SeenKind::kError, 1, 900)};
  const Case one = judge(evidence);
  EXPECT_THAT(one.reasons,
              ElementsAre("rank 1 learned of the fault after 600ms (error), later than 100ms"));
}

TEST(Judge, ErrorFromBeforeTheFaultIsNoDetection) {
  Evidence evidence = fired_on_rank_1();
  evidence.seen = {saw(run::SeenKind::kError, 0, 200)};
  EXPECT_EQ(judge(evidence).outcome, Outcome::kCompletes);
}

TEST(Judge, AbortOnTheWayOutIsNoDetectionButAbortBeforeANewCommIs) {
  Evidence evidence = fired_on_rank_1();
  evidence.seen = {saw(run::SeenKind::kAborted, 0, 900), saw(run::SeenKind::kAborted, 1, 900)};
  EXPECT_EQ(judge(evidence).outcome, Outcome::kCompletes);
  evidence.seen.push_back(saw(run::SeenKind::kCreated, 0, 950));
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kRecovers);
  EXPECT_EQ(one.ranks.at(0).how, "abort");
}

TEST(Judge, RanksOfOneProcessEndWithIt) {
  Evidence evidence = fired_on_rank_1();
  evidence.attached = {process(-1, 100, 0, 20)};
  evidence.journal.at(0).pid = 100;
  evidence.seen = {saw(run::SeenKind::kCreated, 0, 30), saw(run::SeenKind::kCreated, 1, 30)};
  evidence.seen.at(0).pid = evidence.seen.at(1).pid = 100;
  evidence.ending.exit_status = 1;
  evidence.ending.processes = {{100, at(10), at(700)}};
  const Case one = judge(evidence);
  EXPECT_EQ(one.ranks.at(0).how, "ended");
  EXPECT_EQ(one.ranks.at(0).after_fault_ns, 400'000'000U);
}

TEST(Judge, JobThatTookTooLongFailsItsTime) {
  const Case one = judge(fired_on_rank_1("[expect]\nfinished_within = \"500ms\"\n"));
  EXPECT_THAT(one.reasons, ElementsAre("the job took 1s, longer than 500ms"));
}

TEST(Judge, StepsAndAttemptsAreHeldAgainstWhatIsExpected) {
  Evidence evidence = fired_on_rank_1("[expect]\nsteps_lost = \"<=1\"\nattempts = 2\n");
  evidence.steps_lost = 4;
  const Case one = judge(evidence);
  EXPECT_THAT(one.reasons, ElementsAre("the job was started 1 time, expected 2",
                                       "4 steps of the job were lost, expected <=1"));
  evidence.steps_lost.reset();
  EXPECT_THAT(judge(evidence).reasons.at(1), HasSubstr("no line of the job matches 'progress'"));
}

TEST(Judge, WithoutExpectationEveryCleanEndWillDoAndNoOther) {
  Evidence evidence = fired_on_rank_1();
  EXPECT_TRUE(judge(evidence).holds);
  evidence.ending.exit_status = 1;
  EXPECT_TRUE(judge(evidence).holds);
  evidence.ending.stop = Stop::kDeadline;
  EXPECT_FALSE(judge(evidence).holds);
}

TEST(Judge, FullDiskMakesACaseUnrecorded) {
  Evidence evidence = fired_on_rank_1();
  evidence.disk_problem = "the disk of '/x' is full (0B left)";
  const Case one = judge(evidence);
  EXPECT_EQ(one.outcome, Outcome::kNotRecorded);
  EXPECT_EQ(one.note, "could not record: the disk of '/x' is full (0B left)");
  EXPECT_FALSE(one.holds);
}

TEST(Judge, FiringWithoutALineInTheJournalMakesACaseUnrecorded) {
  Evidence evidence = fired_on_rank_1();
  evidence.firings_unproven = 2;
  EXPECT_EQ(judge(evidence).note, "could not record: 2 firings left no line in the journal");
}

TEST(Judge, CommandThatCouldNotStartIsUnrecordedWithTheReason) {
  Evidence evidence = two_ranks();
  evidence.made_run = false;
  evidence.ending.exit_status = 2;
  evidence.log_tail = {"[sabot] cannot run 'x': there is no such program in PATH"};
  EXPECT_EQ(judge(evidence).note,
            "could not start: [sabot] cannot run 'x': there is no such program in PATH");
}

TEST(Judge, JobThatSabotCouldNotGetIntoIsUnrecorded) {
  Evidence evidence = two_ranks();
  evidence.attached.clear();
  evidence.ending.exit_status = 3;
  EXPECT_EQ(judge(evidence).outcome, Outcome::kNotRecorded);
}

TEST(Judge, EventsStandInTheOrderOfTime) {
  Evidence evidence = fired_on_rank_1();
  evidence.seen = {saw(run::SeenKind::kCreated, 0, 30), saw(run::SeenKind::kError, 0, 310)};
  std::vector<EventKind> kinds;
  std::uint64_t last_ns = 0;
  for (const Event& event : judge(evidence).events) {
    kinds.push_back(event.kind);
    EXPECT_GE(event.time_ns, last_ns);
    last_ns = event.time_ns;
  }
  EXPECT_THAT(kinds, ElementsAre(EventKind::kStart, EventKind::kCreated, EventKind::kFault,
                                 EventKind::kDetection, EventKind::kEnded, EventKind::kEnded,
                                 EventKind::kEnd));
}

TEST(Judge, BaselineWithoutFaultsHasNothingToFire) {
  Evidence evidence = two_ranks();
  evidence.scenario = {};
  evidence.why_unfired.clear();
  evidence.expected.outcomes = {Outcome::kCompletes};
  const Case one = judge(evidence);
  EXPECT_TRUE(one.holds);
  EXPECT_THAT(one.faults, IsEmpty());
}

}  // namespace
}  // namespace sabot::drill
