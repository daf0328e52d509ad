// Keepers with real processes: statuses, deadlines, daemons, leftovers, and a drill that dies.
#include "drill/keep/keeper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "drill/keep/process_tree.hpp"

namespace sabot::drill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kPatienceMs = 30'000;

class Keepers : public testing::Test {
 protected:
  Keepers() {
    std::string pattern = testing::TempDir() + "sabot-keep-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Keepers() override { std::filesystem::remove_all(path_); }

  Order shell(const std::string& script, std::uint64_t deadline_ms = 60'000) const {
    Order order;
    order.program = "/bin/sh";
    order.words = {"sh", "-c", script};
    order.environment = {"PATH=/usr/bin:/bin", "FOLDER=" + path_};
    order.output = path_ + "/output";
    order.folder = path_ + "/case";
    order.deadline_ns = deadline_ms * 1'000'000;
    return order;
  }

  static Ending wait_for(Kept& kept) {
    pollfd event{kept.descriptor(), POLLIN, 0};
    while (::poll(&event, 1, kPatienceMs) == 1)
      if (kept.take()) return kept.ending();
    ADD_FAILURE() << "the keeper did not end";
    return {};
  }
  static Ending keep(const Order& order) {
    Result<Kept> kept = Kept::start(order);
    return wait_for(*kept);
  }

  std::string output() const {
    std::ostringstream text;
    text << std::ifstream(path_ + "/output").rdbuf();
    return text.str();
  }
  // The number that the script wrote into a file.
  pid_t pid_in(const std::string& name) const {
    for (int tries = 0; tries < kPatienceMs / 10; ++tries) {
      pid_t pid = 0;
      std::ifstream file(path_ + "/" + name);
      if (file >> pid && pid > 0) return pid;
      ::poll(nullptr, 0, 10);
    }
    return 0;
  }
  static bool is_gone(pid_t pid) {
    for (int tries = 0; tries < kPatienceMs / 10; ++tries) {
      if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }

  std::string path_;
};

TEST_F(Keepers, TellTheStatusAndKeepTheOutput) {
  const Ending ending = keep(shell("echo out; echo err >&2; exit 7"));
  EXPECT_TRUE(ending.started);
  EXPECT_EQ(ending.exit_status, 7);
  EXPECT_EQ(ending.signal, 0);
  EXPECT_EQ(ending.stop, Stop::kNone);
  EXPECT_THAT(ending.leaked, IsEmpty());
  EXPECT_EQ(output(), "out\nerr\n");
  EXPECT_GT(ending.finished_ns, ending.started_ns);
}

TEST_F(Keepers, TellTheSignal) { EXPECT_EQ(keep(shell("kill -SEGV $$")).signal, SIGSEGV); }

TEST_F(Keepers, CommandThatDoesNotExistIsTold) {
  Order order = shell("");
  order.program = "/nowhere/to/be/found";
  const Ending ending = keep(order);
  EXPECT_FALSE(ending.started);
  EXPECT_EQ(ending.problem, "cannot run '/nowhere/to/be/found': No such file or directory");
}

TEST_F(Keepers, EndWhatOutlivesItsDeadlineAndSayWhereItWas) {
  const Ending ending = keep(shell("sleep 600; exit 0", 300));
  EXPECT_EQ(ending.stop, Stop::kDeadline);
  EXPECT_THAT(ending.stuck, testing::Contains(HasSubstr("sleep 600): 1 thread")));
  EXPECT_THAT(ending.leaked, IsEmpty()) << "what the keeper ended was not left behind";
  std::size_t stacks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/case/stacks"))
    stacks += entry.path().extension() == ".txt" ? 1 : 0;
  EXPECT_EQ(stacks, 2U) << "of the shell and of sleep";
}

TEST_F(Keepers, EndWhatIgnoresToBeAsked) {
  const Ending ending = keep(shell("trap '' TERM; while :; do sleep 600; done", 300));
  EXPECT_EQ(ending.stop, Stop::kDeadline);
  EXPECT_EQ(ending.signal, SIGKILL);
}

TEST_F(Keepers, FindDaemonsThatOutliveTheCommandAndEndThem) {
  const Ending ending =
      keep(shell("setsid sh -c 'echo $$ > $FOLDER/daemon; exec sleep 600' & "
                 "while [ ! -s $FOLDER/daemon ]; do sleep 0.01; done"));
  EXPECT_EQ(ending.exit_status, 0);
  ASSERT_EQ(ending.leaked.size(), 1U);
  EXPECT_THAT(ending.leaked[0], HasSubstr("(sleep 600)"));
  EXPECT_TRUE(is_gone(pid_in("daemon")));
}

TEST_F(Keepers, ChildThatLeavesByItselfSoonAfterIsNotLeftBehind) {
  EXPECT_THAT(keep(shell("sleep 0.3 & exit 0")).leaked, IsEmpty());
}

TEST_F(Keepers, FindSharedMemoryThatIsLeftBehind) {
  const std::string name = "/dev/shm/sabot-keeper-test-" + std::to_string(::getpid());
  const Ending ending = keep(shell("exec 9> " + name + "; printf 1234 >&9; sleep 0.5"));
  EXPECT_THAT(ending.leaked, ElementsAre(name + " (4B)"));
  std::filesystem::remove(name);
}

TEST_F(Keepers, SharedMemoryOfOthersIsNone) {
  const std::string name = "/dev/shm/sabot-keeper-other-" + std::to_string(::getpid());
  Result<Kept> kept = Kept::start(shell("sleep 0.5"));
  std::ofstream(name) << "not of this case";
  EXPECT_THAT(wait_for(*kept).leaked, IsEmpty());
  std::filesystem::remove(name);
}

TEST_F(Keepers, EndEverythingWhenInterrupted) {
  Result<Kept> kept = Kept::start(shell("echo $$ > $FOLDER/pid; sleep 600"));
  const pid_t pid = pid_in("pid");
  kept->interrupt();
  EXPECT_EQ(wait_for(*kept).stop, Stop::kInterrupted);
  EXPECT_TRUE(is_gone(pid));
}

TEST_F(Keepers, EndEverythingWhenTheDrillIsKilled) {
  const pid_t drill = ::fork();
  ASSERT_GE(drill, 0);
  if (drill == 0) {
    Result<Kept> kept = Kept::start(shell("setsid sh -c 'echo $$ > $FOLDER/pid; sleep 600'"));
    for (;;) ::pause();
  }
  const pid_t pid = pid_in("pid");
  ::kill(drill, SIGKILL);
  ::waitpid(drill, nullptr, 0);
  EXPECT_TRUE(is_gone(pid));
}

TEST_F(Keepers, TheDrillEndsWhatAKilledKeeperLeft) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Result<Kept> kept =
      Kept::start(shell("echo $PPID > $FOLDER/keeper; setsid sh -c 'echo $$ > "
                        "$FOLDER/pid; sleep 600'"));
  const pid_t pid = pid_in("pid");
  ::kill(pid_in("keeper"), SIGKILL);
  const Ending ending = wait_for(*kept);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_THAT(ending.problem, HasSubstr("ended before it could tell what became of it (signal 9)"));
  EXPECT_TRUE(is_gone(pid));
}

TEST_F(Keepers, SeveralAtOnceKnowOnlyTheirOwnProcesses) {
  Result<Kept> leaving = Kept::start(shell("sleep 0.4"));
  Order order = shell("setsid sleep 600 & sleep 0.2");
  order.output = path_ + "/other";
  Result<Kept> leaking = Kept::start(order);
  EXPECT_THAT(wait_for(*leaving).leaked, IsEmpty());
  EXPECT_EQ(wait_for(*leaking).leaked.size(), 1U);
}

TEST(ProcessTree, FindsGrandchildren) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::fork() == 0)
      for (;;) ::pause();
    for (;;) ::pause();
  }
  std::size_t found = 0;
  for (int tries = 0; found < 2 && tries < 1000; ++tries) {
    found = processes_below(::getpid()).size();
    ::poll(nullptr, 0, 5);
  }
  EXPECT_EQ(found, 2U);
  for (const Process& process : processes_below(::getpid())) ::kill(process.pid, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace sabot::drill
