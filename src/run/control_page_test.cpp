// The control page: what a launcher writes, a process sees; what a process claims or lists, the
// launcher sees; a file that is no page harms nobody.
#include "run/control_page.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "run/control_writer.hpp"
#include "run/recorder.hpp"
#include "run/scratch_folder_test.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

constexpr ControlFault kFirst{0, 0};
constexpr ControlFault kSecond{0, 1};

ControlNames two_faults() {
  return {.faults = {"nic-dies", "slow-rank"}, .switches = {"storm"}, .armed = 0b01};
}

class Page : public ScratchFolder {
 protected:
  ControlWriter writer() {
    Result<ControlWriter> opened = ControlWriter::open(path_, two_faults());
    if (!opened.ok()) {
      ADD_FAILURE() << opened.error().message();
      std::abort();
    }
    return std::move(opened).value();
  }
};

TEST_F(Page, WithoutARunItStaysAsTheScenarioSays) {
  Control control;
  ASSERT_TRUE(control.open("", two_faults()).ok());
  EXPECT_EQ(control.armed(0), 0b01U);
  EXPECT_EQ(control.switches(0), 0U);
  EXPECT_EQ(control.fires_for(0, 0), 0U);
  EXPECT_EQ(control.added(), 0U);
  EXPECT_FALSE(control.changed(control.generation()));
}

TEST_F(Page, BeforeItIsOpenedEverythingIsArmed) {
  const Control control;
  EXPECT_EQ(control.armed(0), ~std::uint64_t{0});
}

TEST_F(Page, AFolderWithoutAPageIsNoError) {
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  EXPECT_EQ(control.armed(0), 0b01U);
}

TEST_F(Page, WhatTheLauncherChangesAProcessSeesWithANewGeneration) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  EXPECT_EQ(control.armed(0), 0b01U);
  std::uint64_t seen = control.generation();

  launcher.set_armed(kSecond, true);
  EXPECT_TRUE(control.changed(seen));
  EXPECT_EQ(control.armed(0), 0b11U);
  launcher.set_armed(kFirst, false);
  EXPECT_EQ(control.armed(0), 0b10U);
  EXPECT_TRUE(launcher.is_armed(kSecond));
  EXPECT_FALSE(launcher.is_armed(kFirst));

  seen = control.generation();
  launcher.set_switch(0, 0, true);
  EXPECT_TRUE(control.changed(seen));
  EXPECT_EQ(control.switches(0), 1U);
  EXPECT_TRUE(launcher.is_switched_on(0, 0));
  launcher.set_switch(0, 0, false);
  EXPECT_EQ(control.switches(0), 0U);
}

TEST_F(Page, ASecondLauncherOfTheRunFindsThePageAsItIs) {
  ControlWriter first = writer();
  first.set_armed(kSecond, true);
  const ControlWriter second = writer();
  EXPECT_TRUE(second.is_armed(kSecond));
}

TEST_F(Page, ALauncherWithOtherFaultsIsRefused) {
  const ControlWriter first = writer();
  const Result<ControlWriter> other = ControlWriter::open(path_, {.faults = {"nic-dies"}});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message(),
            "the control page '" + path_ + "/control' belongs to a launcher with other faults");
}

TEST_F(Page, AProcessWithOtherFaultsKeepsItsOwnPlanAndSeesWhatWasAdded) {
  ControlWriter launcher = writer();
  launcher.set_armed(kFirst, false);
  Control control;
  ASSERT_TRUE(control.open(path_, {.faults = {"something else"}, .armed = 0b1}).ok());
  EXPECT_EQ(control.armed(0), 0b1U);
  launcher.count_added(0b101, 0b10);
  EXPECT_EQ(control.added(), 1U);
  EXPECT_EQ(control.armed(1), 0b101U);
  EXPECT_EQ(control.switches(1), 0b10U);
}

TEST_F(Page, ARequestIsForItsRankAndIsClaimedOnce) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  EXPECT_FALSE(control.claim_fire(kSecond, 3));

  launcher.request_fire(kSecond, 3);
  EXPECT_EQ(launcher.waiting_fire(kSecond), 3);
  EXPECT_EQ(control.fires_for(0, 2), 0U);
  EXPECT_EQ(control.fires_for(0, -1), 0U);
  EXPECT_EQ(control.fires_for(0, 3), 0b10U);
  EXPECT_FALSE(control.claim_fire(kSecond, 2));
  EXPECT_FALSE(control.claim_fire(kFirst, 3));
  EXPECT_TRUE(control.claim_fire(kSecond, 3));
  EXPECT_FALSE(control.claim_fire(kSecond, 3));
  EXPECT_EQ(control.fires_for(0, 3), 0U);
  EXPECT_EQ(launcher.waiting_fire(kSecond), std::nullopt);
}

TEST_F(Page, ARequestForAnyRankIsAlsoForOneThatKnowsNoNumber) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  launcher.request_fire(kFirst, kAnyRank);
  EXPECT_EQ(launcher.waiting_fire(kFirst), kAnyRank);
  EXPECT_EQ(control.fires_for(0, -1), 0b1U);
  EXPECT_TRUE(control.claim_fire(kFirst, -1));
}

TEST_F(Page, ARequestThatIsWithdrawnIsNotClaimed) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  launcher.request_fire(kFirst, 0);
  launcher.withdraw_fire(kFirst);
  EXPECT_EQ(control.fires_for(0, 0), 0U);
  EXPECT_FALSE(control.claim_fire(kFirst, 0));
}

TEST_F(Page, EachOfManyRequestsIsClaimedOnceWhoeverAsks) {
  constexpr int kRequests = 300;
  ControlWriter launcher = writer();
  std::atomic<int> claimed{0};
  std::atomic<bool> is_over{false};
  const auto claimer = [&] {
    Control control;
    ASSERT_TRUE(control.open(path_, two_faults()).ok());
    while (!is_over.load())
      if (control.fires_for(0, 1) != 0 && control.claim_fire(kFirst, 1)) claimed.fetch_add(1);
  };
  std::thread one(claimer);
  std::thread other(claimer);
  for (int i = 0; i < kRequests; ++i) {
    launcher.request_fire(kFirst, 1);
    while (launcher.waiting_fire(kFirst)) std::this_thread::yield();
  }
  is_over.store(true);
  one.join();
  other.join();
  EXPECT_EQ(claimed.load(), kRequests);
}

TEST_F(Page, WhatFiredIsCountedOverAllProcesses) {
  const ControlWriter launcher = writer();
  Control one;
  Control other;
  ASSERT_TRUE(one.open(path_, two_faults()).ok());
  ASSERT_TRUE(other.open(path_, two_faults()).ok());
  one.count_fired(kSecond);
  other.count_fired(kSecond);
  EXPECT_EQ(launcher.fired(kSecond), 2U);
  EXPECT_EQ(launcher.fired(kFirst), 0U);
}

TEST_F(Page, AReleaseConcernsOneFaultOrAll) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  const std::uint64_t first = control.release_count(kFirst);
  const std::uint64_t second = control.release_count(kSecond);
  launcher.release(kFirst);
  EXPECT_NE(control.release_count(kFirst), first);
  EXPECT_EQ(control.release_count(kSecond), second);
  launcher.release_all();
  EXPECT_NE(control.release_count(kSecond), second);
}

TEST_F(Page, AHeldCallIsListedAsLongAsItIsHeld) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  {
    const Control::Listing one(control, kSecond, 5);
    const Control::Listing other(control, {2, 63}, -1);
    const std::vector<HeldCall> held = launcher.held();
    ASSERT_EQ(held.size(), 2U);
    EXPECT_EQ(held[0].fault.plan, 0U);
    EXPECT_EQ(held[0].fault.fault, 1U);
    EXPECT_EQ(held[0].world_rank, 5);
    EXPECT_EQ(held[0].pid, ::getpid());
    EXPECT_GT(held[0].since_ns, 0U);
    EXPECT_EQ(held[1].fault.plan, 2U);
    EXPECT_EQ(held[1].fault.fault, 63U);
    EXPECT_EQ(held[1].world_rank, -1);
  }
  EXPECT_TRUE(launcher.held().empty());
}

TEST_F(Page, AFullListTakesNoMoreAndHarmsNobody) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  std::vector<std::unique_ptr<Control::Listing>> listings;
  for (std::size_t i = 0; i < kControlHoldsMax + 3; ++i)
    listings.push_back(std::make_unique<Control::Listing>(control, kFirst, 0));
  EXPECT_EQ(launcher.held().size(), kControlHoldsMax);
  listings.clear();
  EXPECT_TRUE(launcher.held().empty());
}

TEST_F(Page, TheHeldCallsOfAProcessThatWasKilledLeaveTheListAlsoBeforeItIsReaped) {
  ControlWriter launcher = writer();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Control control;
    if (!control.open(path_, two_faults()).ok()) ::_exit(1);
    const Control::Listing listing(control, kFirst, 0);
    if (::write(ready[1], "!", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char sign = 0;
  ASSERT_EQ(::read(ready[0], &sign, 1), 1);
  EXPECT_EQ(launcher.held().size(), 1U);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(launcher.held().empty());
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Page, NoMorePlansAreCountedThanThereIsRoomFor) {
  ControlWriter launcher = writer();
  for (std::size_t i = 1; i < kControlPlansMax; ++i) launcher.count_added(1, 0);
  EXPECT_EQ(launcher.added(), kControlPlansMax - 1);
}

TEST_F(Page, AFileThatIsNoPageIsRefusedAndTheProcessHasAPageOfItsOwn) {
  const std::string sentence = "'" + path_ + "/control' is no control page of this version";
  for (const std::size_t length : {std::size_t{3}, sizeof(ControlPage) + 10}) {
    ASSERT_TRUE(write_file(path_ + "/control", std::string(length, 'x')).ok());
    Control control;
    const Status opened = control.open(path_, two_faults());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().message(), sentence);
    EXPECT_EQ(control.armed(0), 0b01U);
  }
}

TEST_F(Page, TheChildOfAForkHasAPageOfItsOwn) {
  ControlWriter launcher = writer();
  Control control;
  ASSERT_TRUE(control.open(path_, two_faults()).ok());
  launcher.request_fire(kFirst, kAnyRank);
  control.after_fork_child();
  EXPECT_EQ(control.fires_for(0, 0), 0U);
  EXPECT_EQ(control.armed(0), 0b01U);
}

TEST_F(Page, ARecorderOpensThePageOfItsRun) {
  RecorderOptions options;
  options.run_folder = path_;
  options.faults = {{.name = "nic-dies"}, {.name = "slow-rank", .is_armed = false}};
  options.switches = {"storm"};
  ControlWriter launcher = writer();
  Recorder recorder(options);
  EXPECT_TRUE(recorder.problems().empty());
  EXPECT_EQ(recorder.control().armed(0), 0b01U);
  launcher.set_armed(kSecond, true);
  EXPECT_EQ(recorder.control().armed(0), 0b11U);
}

}  // namespace
}  // namespace sabot::run
