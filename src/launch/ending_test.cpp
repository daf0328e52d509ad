// The end of a run: evidence from the run folder, sentences and exit status.
#include "launch/ending.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launch/plan.hpp"
#include "run/recorder.hpp"
#include "run/run_folder.hpp"
#include "run/scratch_folder_test.hpp"
#include "scenario/parse.hpp"
#include "scenario/tally.hpp"

namespace sabot::launch {
namespace {

using config::Assignment;
using config::KnobId;
using config::Snapshot;

constexpr const char* kLine =
    "nic-dies: AllReduce[rank=1,nth=3]=error(SystemError); other: Send[peer=9]=error(RemoteError)";

Evidence healthy() {
  Evidence evidence;
  evidence.here = evidence.run = {.attached = 2, .calls_seen = 8};
  evidence.firings = 1;
  evidence.faults = {{"nic-dies", 1, ""}};
  return evidence;
}

Evidence unfired() {
  Evidence evidence = healthy();
  evidence.firings = 0;
  evidence.faults = {
      {"nic-dies", 0, "fault \"nic-dies\" did not fire: no call of AllReduce was made"}};
  return evidence;
}

TEST(Conclusion, AFiredFaultIsOneLineAndTheStatusOfTheCommand) {
  const Conclusion conclusion = conclude(healthy(), {.exit_status = 1}, true);
  EXPECT_EQ(conclusion.lines,
            std::vector<std::string>{
                "run ended: 2 processes attached, 8 calls seen, faults planned 1, fired 1"});
  EXPECT_EQ(conclusion.status, 1);
  EXPECT_FALSE(conclusion.is_failure_of_ours);
}

TEST(Conclusion, SeveralFiringsOfOneFaultAreCounted) {
  Evidence evidence = healthy();
  evidence.run = {.attached = 1, .calls_seen = 1};
  evidence.firings = 7;
  EXPECT_EQ(conclude(evidence, {}, false).lines[0],
            "run ended: 1 process attached, 1 call seen, faults planned 1, fired 1 (7 times)");
}

TEST(Conclusion, AnUnfiredFaultIsExplainedAndFailsTheRunOnlyWhereThatIsAskedFor) {
  const Conclusion lenient = conclude(unfired(), {}, false);
  EXPECT_EQ(lenient.lines.at(1), "fault \"nic-dies\" did not fire: no call of AllReduce was made");
  EXPECT_EQ(lenient.status, 0);
  const Conclusion strict = conclude(unfired(), {}, true);
  EXPECT_EQ(strict.status, 4);
  EXPECT_TRUE(strict.is_failure_of_ours);
}

TEST(Conclusion, TheCommandsOwnFailureIsNeverReplaced) {
  EXPECT_EQ(conclude(unfired(), {.exit_status = 7}, true).status, 7);
  EXPECT_EQ(conclude(unfired(), {.signal = 9}, true).status, 137);
}

TEST(Conclusion, C2NcclThatWasUsedWithoutUsIsStatus3AndNamesTheProcess) {
  Evidence evidence;
  evidence.not_attached = {"process a.5 (python3 t.py): NCCL was opened by path"};
  const Conclusion conclusion = conclude(evidence, {}, false);
  EXPECT_EQ(conclusion.status, 3);
  EXPECT_TRUE(conclusion.is_failure_of_ours);
  EXPECT_EQ(conclusion.lines.at(1),
            "nothing was attached: process a.5 (python3 t.py): NCCL was opened by path");
  evidence.here.attached = 1;
  EXPECT_EQ(conclude(evidence, {}, false).status, 0) << "others were attached: said, not judged";
  EXPECT_EQ(conclude(evidence, {}, false).lines.at(1),
            "not attached: process a.5 (python3 t.py): NCCL was opened by path");
}

TEST(Conclusion, ACommandThatNeverUsedNcclIsItsOwnStatus) {
  EXPECT_EQ(conclude({}, {.exit_status = 0}, false).status, 0);
}

TEST(Conclusion, WhileOtherLaunchersAreLeftFaultsAreNotJudged) {
  Evidence evidence = unfired();
  evidence.launchers_left = 3;
  evidence.run.attached = 5;
  const Conclusion conclusion = conclude(evidence, {}, true);
  EXPECT_EQ(conclusion.status, 0);
  EXPECT_EQ(conclusion.lines,
            std::vector<std::string>{
                "this part of the run ended: 2 processes attached, 8 calls seen; 3 other launchers "
                "are at work in the run folder, and the last one reports on the faults"});
}

TEST(Conclusion, FiringsThatTheProgramInjectedAreToldApartFromPlannedOnes) {
  Evidence evidence = healthy();
  const std::string planned = conclude(evidence, {}, false).lines.at(0);
  evidence.injected = 1;
  EXPECT_EQ(conclude(evidence, {}, false).lines.at(0),
            planned + ", and 1 firing injected by the program");
}

TEST(Conclusion, FiringsWithoutProofAreSaid) {
  Evidence evidence = healthy();
  evidence.firings_unproven = 2;
  EXPECT_EQ(conclude(evidence, {}, false).lines.at(1), "2 firings left no line in the journal");
}

class EndOfRun : public run::ScratchFolder {
 protected:
  static Plan plan_of(const char* line) {
    const Assignment assignment[] = {{KnobId::kFault, line}};
    Result<Plan> plan = load_plan(Snapshot::resolve({.command_line = assignment}));
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return std::move(plan).value();
  }
  run::RecorderOptions options(const Plan& plan) const {
    run::RecorderOptions options;
    options.run_folder = path_;
    options.slot_bytes = sizeof(scenario::FaultTally);
    for (const scenario::Fault& fault : plan.scenario.faults)
      options.faults.push_back({fault.name, fault.budget});
    return options;
  }
};

TEST_F(EndOfRun, EvidenceIsGatheredFromWhatProcessesLeft) {
  const Plan plan = plan_of(kLine);
  run::Recorder recorder(options(plan));
  recorder.counters().calls_seen.fetch_add(5);
  recorder.counters().faults_fired.fetch_add(2);
  recorder.slots<scenario::FaultTally>()[1].calls = 12;
  run::AttachRecord record;
  record.launcher = "node.7";
  ASSERT_TRUE(recorder.write_attach(record).ok());
  run::JournalEntry entry;
  entry.fault = "nic-dies";
  entry.function = "AllReduce";
  ASSERT_TRUE(recorder.journal().append(entry).ok());
  entry.fault = "other";  // the name of a planned one, but the program's own
  entry.injection = 1;
  recorder.count_firing();
  ASSERT_TRUE(recorder.journal().append(entry).ok());

  const Evidence evidence = gather_evidence(path_, plan, "node.7");
  EXPECT_EQ(evidence.injected, 1u);
  EXPECT_EQ(evidence.here.attached, 1u);
  EXPECT_EQ(evidence.here.calls_seen, 5u);
  EXPECT_EQ(evidence.firings, 1u);
  EXPECT_EQ(evidence.firings_unproven, 1u);
  ASSERT_EQ(evidence.faults.size(), 2u);
  EXPECT_EQ(evidence.faults[0].fired, 1u);
  EXPECT_EQ(evidence.faults[0].explanation, "");
  EXPECT_EQ(evidence.faults[1].fired, 0u);
  EXPECT_TRUE(evidence.faults[1].explanation.starts_with("fault \"other\" did not fire"))
      << evidence.faults[1].explanation;
}

TEST_F(EndOfRun, AFiringThatDidNothingIsNoneAndItsReasonIsSaid) {
  const Plan plan = plan_of("nic-dies: AllReduce=error(SystemError)");
  run::Recorder recorder(options(plan));
  run::JournalEntry entry;
  entry.fault = "nic-dies";
  entry.function = "AllReduce";
  ASSERT_TRUE(recorder.journal().append(entry).ok());
  entry.refused = "the stream is being captured";
  ASSERT_TRUE(recorder.journal().append(entry).ok());
  recorder.count_firing();
  const Evidence evidence = gather_evidence(path_, plan, "node.7");
  EXPECT_EQ(evidence.firings, 0u);
  EXPECT_EQ(evidence.firings_unproven, 0u);
  EXPECT_EQ(evidence.faults.at(0).fired, 0u);
  EXPECT_EQ(conclude(evidence, {}, true).lines.at(1),
            "fault \"nic-dies\" fired, but did nothing: the stream is being captured");
}

TEST_F(EndOfRun, WhatWasAddedToTheRunIsPlannedToo) {
  const Plan plan = plan_of(kLine);
  run::Recorder recorder(options(plan));
  std::filesystem::create_directory(path_ + "/added");
  std::ofstream(path_ + "/added/1.toml")
      << "sabot = 1\n[[fault]]\nname = \"late\"\nwhen = { call = \"AllReduce\" }\n"
         "do = { error = \"SystemError\" }\n[[fault]]\nname = \"later\"\n"
         "when = { call = \"AllReduce\" }\ndo = { error = \"SystemError\" }\n";
  run::JournalEntry entry;
  entry.fault = "late";
  entry.function = "AllReduce";
  ASSERT_TRUE(recorder.journal().append(entry).ok());
  const Evidence evidence = gather_evidence(path_, plan, "node.7");
  ASSERT_EQ(evidence.faults.size(), 4u);
  EXPECT_EQ(evidence.faults[2].fired, 1u);
  EXPECT_EQ(evidence.faults[3].explanation, "fault \"later\", added to the run, did not fire");
  EXPECT_TRUE(evidence.problems.empty());
}

TEST_F(EndOfRun, ALauncherTellsItsOwnProcessesFromThoseOfOthers) {
  const Plan plan = plan_of(kLine);
  run::Recorder recorder(options(plan));
  recorder.counters().calls_seen.fetch_add(5);
  run::AttachRecord record;
  record.launcher = "node.7";
  ASSERT_TRUE(recorder.write_attach(record).ok());
  const Evidence other = gather_evidence(path_, plan, "node.8");
  EXPECT_EQ(other.here.attached, 0u);
  EXPECT_EQ(other.here.calls_seen, 0u);
  EXPECT_EQ(other.run.attached, 1u);
  EXPECT_EQ(other.run.calls_seen, 5u);
}

TEST_F(EndOfRun, ATallyOfAnotherPlanIsNotMergedIntoThisOne) {
  const Plan plan = plan_of(kLine);
  run::Recorder recorder(options(plan_of("x: AllReduce[nth=3]=error(SystemError)")));
  recorder.slots<scenario::FaultTally>()[0].calls = 12;
  EXPECT_EQ(gather_evidence(path_, plan, "node.7").faults[0].explanation,
            "fault \"nic-dies\" did not fire: no call of AllReduce was made");
}

class Plans : public run::ScratchFolder {
 protected:
  static Result<Plan> load(const std::string& file, const std::string& line) {
    std::vector<Assignment> given;
    if (!file.empty()) given.push_back({KnobId::kScenario, file});
    if (!line.empty()) given.push_back({KnobId::kFault, line});
    return load_plan(Snapshot::resolve({.command_line = given}));
  }
  void SetUp() override {
    ScratchFolder::SetUp();
    std::ofstream("s.toml") << "sabot = 1\nname = \"n\"\n[[fault]]\nname = \"a\"\n"
                               "when = { call = \"AllReduce\", nth = 3 }\n"
                               "do = { error = \"SystemError\" }\n";
  }
};

TEST_F(Plans, FileAndLinesAreOnePlan) {
  const Result<Plan> plan = load("s.toml", "b: Send[nth=1]=error(RemoteError)");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_EQ(plan->scenario.faults.size(), 2u);
  EXPECT_EQ(plan->scenario.faults[0].name, "a");
  EXPECT_EQ(plan->scenario.faults[1].name, "b");
  EXPECT_TRUE(plan->file_text.starts_with("sabot = 1"));
}

TEST_F(Plans, OneNameForTwoFaultsIsRefused) {
  EXPECT_EQ(
      load("s.toml", "a: Send[nth=1]=error(RemoteError)").error().message(),
      "--fault: the scenario file has a fault named \"a\" already; give this one another name, "
      "as in 'other: AllReduce[nth=3]=error(SystemError)'");
}

TEST_F(Plans, WithoutFaultsThePlanIsEmpty) {
  EXPECT_TRUE(load("", "")->scenario.faults.empty());
  EXPECT_EQ(load("gone.toml", "").error().message(),
            "cannot read scenario 'gone.toml': there is no such file");
}

}  // namespace
}  // namespace sabot::launch
