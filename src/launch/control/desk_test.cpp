// The desk: each request changes the control page as a process sees it, and is answered in a
// sentence; what is refused changes nothing.
#include "launch/control/desk.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "run/identity.hpp"
#include "run/recorder.hpp"
#include "run/run_folder.hpp"
#include "run/scratch_folder_test.hpp"
#include "run/text_file.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch::control {
namespace {

constexpr const char* kScenario = R"(sabot = 1
name = "two faults"
ranks = 4
[[fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1 }
do = { error = "SystemError" }
budget = 2
[[fault]]
name = "stormy"
when = { call = "AllReduce", switch = "storm" }
do = { error = "RemoteError" }
)";

constexpr const char* kMore = R"(sabot = 1
[[fault]]
name = "late"
when = { call = "Broadcast", switch = "storm" }
do = { error = "InternalError" }
)";

class AtTheDesk : public run::ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    for (const char* const part : {"attach", "journal", "budget", "tally"})
      std::filesystem::create_directory(path_ + "/" + part);
    Result<scenario::Scenario> scenario = scenario::parse_toml(kScenario, "two.toml");
    ASSERT_TRUE(scenario.ok()) << scenario.error().message();
    scenario_ = *scenario;
    desk_ = open_desk();
    ASSERT_TRUE(seen_.open(path_, names_of(scenario_)).ok());
  }
  std::unique_ptr<Desk> open_desk() {
    Result<run::ControlWriter> writer = run::ControlWriter::open(path_, names_of(scenario_));
    if (!writer.ok()) return nullptr;
    return std::make_unique<Desk>(
        DeskFacts{.run_folder = path_, .scenario = scenario_, .unshared = unshared_},
        std::move(writer).value());
  }
  // The text of the answer, with "refused: " in front where it is one.
  std::string ask(const Request& request) { return ask_line(to_line(request)); }
  std::string ask_line(const std::string& line) {
    const Result<run::JsonValue> answer = parse_answer(desk_->answer(line));
    if (!answer.ok()) return answer.error().message();
    return ((*answer)["ok"].boolean() ? "" : "refused: ") + (*answer)["text"].text();
  }
  std::string add(const std::string& text, const std::string& file = "more.toml") {
    return ask({.verb = Verb::kAdd, .file = file, .text = text});
  }

  scenario::Scenario scenario_;
  std::string unshared_;
  std::unique_ptr<Desk> desk_;
  run::Control seen_;  // by a process of the run
};

TEST_F(AtTheDesk, AFaultIsDisarmedAndArmedAgain) {
  EXPECT_EQ(seen_.armed(0) & 0b11U, 0b11U);
  const std::uint64_t before = seen_.generation();
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "nic-dies"}), "fault \"nic-dies\" is disarmed");
  EXPECT_TRUE(seen_.changed(before));
  EXPECT_EQ(seen_.armed(0) & 0b11U, 0b10U);
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "nic-dies"}),
            "fault \"nic-dies\" is disarmed, as it was");
  EXPECT_EQ(ask({.verb = Verb::kArm, .name = "nic-dies"}), "fault \"nic-dies\" is armed");
  EXPECT_EQ(seen_.armed(0) & 0b11U, 0b11U);
}

TEST_F(AtTheDesk, ASwitchIsTurnedOnAndOffByTheSameWords) {
  EXPECT_EQ(seen_.switches(0), 0U);
  EXPECT_EQ(ask({.verb = Verb::kArm, .name = "storm"}), "switch \"storm\" is on");
  EXPECT_EQ(seen_.switches(0), 1U);
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "storm"}), "switch \"storm\" is off");
  EXPECT_EQ(seen_.switches(0), 0U);
}

TEST_F(AtTheDesk, AnUnknownNameIsRefusedWithTheNearest) {
  const std::uint64_t before = seen_.generation();
  EXPECT_EQ(ask({.verb = Verb::kArm, .name = "nic-deis"}),
            "refused: no fault or switch is called 'nic-deis'; did you mean 'nic-dies'?");
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "strom"}),
            "refused: no fault or switch is called 'strom'; did you mean 'storm'?");
  EXPECT_EQ(ask({.verb = Verb::kRelease, .name = "xxxxxxxx"}),
            "refused: no fault or switch is called 'xxxxxxxx'; `sabot ctl status` lists them");
  EXPECT_FALSE(seen_.changed(before));
}

TEST_F(AtTheDesk, ARequestedFiringWaitsForItsRankAndIsWithdrawnByDisarming) {
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "nic-dies", .rank = 3}),
            "fault \"nic-dies\" fires once, on rank 3, at the next call that meets its conditions, "
            "counts, times and chance apart");
  EXPECT_EQ(seen_.fires_for(0, 3), 1U);
  EXPECT_EQ(seen_.fires_for(0, 2), 0U);
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "nic-dies", .rank = 3}),
            "fault \"nic-dies\" fires once, on rank 3, at the next call that meets its conditions, "
            "counts, times and chance apart; that was asked before");
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "nic-dies"}),
            "refused: fault \"nic-dies\" is asked to fire on rank 3 already and has not yet; "
            "`sabot ctl disarm nic-dies` withdraws that");
  EXPECT_EQ(desk_->status().faults[0].waits_for, "rank 3");
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "nic-dies"}),
            "fault \"nic-dies\" is disarmed; it is not asked to fire any more");
  EXPECT_EQ(seen_.fires_for(0, 3), 0U);
}

TEST_F(AtTheDesk, AFiringWaitsForItsSwitchAndSaysSo) {
  const std::string text =
      "fault \"stormy\" fires once, on any rank, at the next call that meets its conditions, "
      "counts, times and chance apart";
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "stormy"}),
            text + "; not before its switch is on: `sabot ctl arm storm`");
  EXPECT_EQ(ask({.verb = Verb::kArm, .name = "storm"}), "switch \"storm\" is on");
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "stormy"}), text + "; that was asked before");
}

TEST_F(AtTheDesk, WhatCannotFireIsRefused) {
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "storm"}),
            "refused: 'storm' is a switch: it is armed, only a fault fires");
  EXPECT_EQ(ask({.verb = Verb::kFire, .name = "nic-dies", .rank = 4}),
            "refused: rank 4 is none of the 4 that the scenario says the job has");
  run::Budget budget;
  budget.open(path_);
  const std::size_t index = budget.add("nic-dies", 2);
  EXPECT_EQ(*budget.claim(index), 1U);
  EXPECT_EQ(desk_->status().faults[0].left, 1U);
  EXPECT_EQ(*budget.claim(index), 2U);
  EXPECT_EQ(
      ask({.verb = Verb::kFire, .name = "nic-dies"}),
      "refused: fault \"nic-dies\" has used up its budget of 2 and fires no more in this run");
}

TEST_F(AtTheDesk, AReleaseCountsWhatIsHeldAndReachesTheProcesses) {
  const run::ControlFault first{0, 0};
  const run::ControlFault second{0, 1};
  const run::Control::Listing held(seen_, first, 2);
  const std::uint64_t count_first = seen_.release_count(first);
  const std::uint64_t count_second = seen_.release_count(second);
  EXPECT_EQ(ask({.verb = Verb::kRelease, .name = "nic-dies"}),
            "fault \"nic-dies\" is released (1 call held)");
  EXPECT_NE(seen_.release_count(first), count_first);
  EXPECT_EQ(seen_.release_count(second), count_second);
  EXPECT_EQ(ask({.verb = Verb::kRelease}), "everything is released (1 call held)");
  EXPECT_NE(seen_.release_count(second), count_second);
  EXPECT_EQ(ask({.verb = Verb::kRelease, .name = "storm"}),
            "refused: 'storm' is a switch: it holds nothing");
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "nic-dies"}),
            "fault \"nic-dies\" is disarmed; it still holds 1 call: `sabot ctl release nic-dies` "
            "lets go");
}

TEST_F(AtTheDesk, AnAddedScenarioIsInItsFileBeforeItCountsAndItsFaultsHaveNames) {
  EXPECT_EQ(ask({.verb = Verb::kArm, .name = "storm"}), "switch \"storm\" is on");
  EXPECT_EQ(add(kMore), "more.toml: added fault \"late\"");
  EXPECT_EQ(seen_.added(), 1U);
  EXPECT_EQ(*run::read_text_file("scenario", path_ + "/added/1.toml"), kMore);
  EXPECT_EQ(seen_.armed(1), 1U);
  EXPECT_EQ(seen_.switches(1), 1U) << "a switch that is on is on for what comes later";
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "storm"}), "switch \"storm\" is off");
  EXPECT_EQ(seen_.switches(1), 0U);
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "late"}), "fault \"late\" is disarmed");
  EXPECT_EQ(seen_.armed(1), 0U);
  const RunStatus status = desk_->status();
  ASSERT_EQ(status.faults.size(), 3U);
  EXPECT_EQ(status.faults[2].name, "late");
  EXPECT_EQ(status.faults[2].added, 1U);
  EXPECT_EQ(status.switches.size(), 1U);
}

TEST_F(AtTheDesk, AnAddedScenarioWithMistakesIsRefusedWithFileLineAndKey) {
  EXPECT_EQ(add("sabot = 1\n[[fault]]\nwhen = { cal = \"AllReduce\" }\n"
                "do = { error = \"SystemError\" }\n")
                .substr(0, 72),
            "refused: more.toml:3: key 'when.cal': unknown key; did you mean 'call'?\n");
  EXPECT_EQ(add("sabot = 1\n"),
            "refused: more.toml: key 'fault': missing; a scenario has at least one [[fault]] with "
            "'when' and 'do'");
  EXPECT_EQ(add("sabot = 1\n[[fault]]\nname = \"nic-dies\"\nwhen = { call = \"AllReduce\" }\n"
                "do = { error = \"SystemError\" }\n"),
            "refused: more.toml: fault \"nic-dies\" is in this run already; budgets and journal go "
            "by names, so give it another");
  EXPECT_EQ(seen_.added(), 0U);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/added"));
}

TEST_F(AtTheDesk, AnAddedBudgetNeedsAFolderThatAllHostsSee) {
  unshared_ = "the hosts share nothing";
  desk_ = open_desk();
  EXPECT_EQ(add(std::string(kMore) + "budget = 1\n"), "refused: the hosts share nothing");
  EXPECT_EQ(add(kMore), "more.toml: added fault \"late\"");
}

TEST_F(AtTheDesk, AsManyScenariosAsThePageHoldsCanBeAdded) {
  const auto numbered = [](int number) {
    return "sabot = 1\n[[fault]]\nname = \"f" + std::to_string(number) +
           "\"\nwhen = { call = \"AllReduce\" }\ndo = { error = \"SystemError\" }\n";
  };
  for (int i = 1; i <= 15; ++i)
    EXPECT_EQ(add(numbered(i)), "more.toml: added fault \"f" + std::to_string(i) + "\"");
  EXPECT_EQ(
      add(numbered(16)),
      "refused: more.toml: 15 scenarios were added to this run, which is as many as it takes");
}

TEST_F(AtTheDesk, ALauncherThatTakesOverKnowsWhatWasAdded) {
  EXPECT_EQ(add(kMore), "more.toml: added fault \"late\"");
  desk_ = open_desk();
  EXPECT_EQ(ask({.verb = Verb::kDisarm, .name = "late"}), "fault \"late\" is disarmed");
  EXPECT_EQ(add(kMore),
            "refused: more.toml: fault \"late\" is in this run already; budgets and journal go by "
            "names, so give it another");
}

TEST_F(AtTheDesk, TheStatusCountsProcessesFiringsAndHeldCalls) {
  run::AttachRecord record;
  record.rank = 1;
  ASSERT_TRUE(run::write_attach_record(path_, run::process_tag(), record).ok());
  seen_.count_fired({0, 1});
  const run::Control::Listing held(seen_, {0, 0}, 2);
  const RunStatus status = desk_->status();
  EXPECT_EQ(status.run_folder, path_);
  EXPECT_EQ(status.launcher_pid, ::getpid());
  EXPECT_EQ(status.attached, 1U);
  EXPECT_EQ(status.alive, 1U);
  EXPECT_EQ(status.elsewhere, 0U);
  ASSERT_EQ(status.faults.size(), 2U);
  EXPECT_EQ(status.faults[0].fired, 0U);
  EXPECT_EQ(status.faults[0].budget, 2U);
  EXPECT_EQ(status.faults[0].left, 2U);
  EXPECT_EQ(status.faults[1].fired, 1U);
  EXPECT_EQ(status.faults[1].budget, 0U);
  ASSERT_EQ(status.faults[0].held.size(), 1U);
  EXPECT_EQ(status.faults[0].held[0].rank, 2);
  EXPECT_EQ(status.faults[0].held[0].pid, ::getpid());
  EXPECT_TRUE(status.problems.empty());
}

TEST(StatusText, IsATable) {
  RunStatus status;
  status.run_folder = "/r";
  status.host = "node7";
  status.launcher_pid = 12;
  status.running_ms = 12345;
  status.attached = 3;
  status.alive = 1;
  status.elsewhere = 1;
  status.calls_seen = 1;
  status.faults.resize(2);
  status.faults[0] = {.name = "nic-dies", .is_armed = true, .fired = 1, .budget = 2, .left = 1};
  status.faults[1].name = "slow-rank";
  status.faults[1].waits_for = "rank 3";
  status.faults[1].held = {{.rank = 1, .pid = 7, .for_ms = 3250}, {.pid = 8, .for_ms = 90}};
  status.switches = {{"storm", true}};
  status.problems = {"'x' is no tally of this version"};
  const std::string text = R"(run /r, 12.3 s, controlled on host node7 by process 12
3 processes attached, 1 alive here, 1 on other hosts, out of reach of this control, 1 call seen
fault      state                              fired  left      held now
nic-dies   armed                              1      1 of 2    0
slow-rank  disarmed, asked to fire on rank 3  0      no limit  2 (rank 1 for 3.2 s, process 8 for )"
                           R"(0.1 s)
switch storm is on
'x' is no tally of this version
)";
  EXPECT_EQ(text_of(status), text);
  const Result<run::JsonValue> json = run::JsonValue::parse(to_json(status));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(text_of(status_of(*json)), text);
}

}  // namespace
}  // namespace sabot::launch::control
