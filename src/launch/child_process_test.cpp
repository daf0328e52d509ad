// Starting, signalling and outliving the command; asking a driver that may hang or crash.
#include "launch/child_process.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "launch/device_probe.hpp"
#include "run/scratch_folder_test.hpp"

namespace sabot::launch {
namespace {

class Child : public run::ScratchFolder {
 protected:
  static Result<Ending> shell(const std::string& line) {
    return run_child("/bin/sh", {"sh", "-c", line}, {"PATH=/usr/bin:/bin", "GREETING=hello"});
  }
  static bool appears(const std::string& path) {
    for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) ::poll(nullptr, 0, 10);
    return std::filesystem::exists(path);
  }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Runs the line under run_child in a process of its own, which is what signals are sent to.
  static pid_t launcher_of(const std::string& line) {
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      // A job of its own with this process as its shell: the kernel stops no job that has none.
      ::setpgid(0, 0);
      const Result<Ending> ending = shell(line);
      ::_exit(ending.ok() ? ending->shell_status() : 99);
    }
    return launcher;
  }
  static int status_of(pid_t launcher) {
    int status = 0;
    ::waitpid(launcher, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
};

TEST_F(Child, TheExitStatusAndTheSignalAreTheCommands) {
  EXPECT_EQ(shell("exit 0")->shell_status(), 0);
  EXPECT_EQ(shell("exit 7")->shell_status(), 7);
  EXPECT_EQ(shell("kill -KILL $$")->shell_status(), 137);
  EXPECT_EQ(shell("kill -SEGV $$")->signal, SIGSEGV);
}

TEST_F(Child, TheEnvironmentIsExactlyTheOneGiven) {
  EXPECT_EQ(shell("test \"$GREETING\" = hello && test -z \"$HOME\"")->exit_status, 0);
}

TEST_F(Child, AProgramThatCannotBeStartedIsAnError) {
  EXPECT_EQ(run_child("/gone", {"gone"}, {}).error().message(),
            "cannot run '/gone': No such file or directory");
  std::ofstream("plain") << "exit 5\n";
  std::filesystem::permissions("plain", std::filesystem::perms::owner_all);
  EXPECT_EQ(run_child("./plain", {"plain"}, {"PATH=/bin"})->exit_status, 5) << "as execvp does";
}

TEST_F(Child, SignalsSentToTheLauncherReachTheCommandOnce) {
  for (const auto& [number, name] :
       std::initializer_list<std::pair<int, std::string>>{{SIGTERM, "TERM"},
                                                          {SIGINT, "INT"},
                                                          {SIGHUP, "HUP"},
                                                          {SIGQUIT, "QUIT"},
                                                          {SIGUSR1, "USR1"},
                                                          {SIGUSR2, "USR2"}}) {
    const std::string file = "got." + name;
    const pid_t launcher = launcher_of("trap 'echo x >> " + file + "; exit 3' " + name +
                                       "; touch ready." + name + "; while :; do sleep 0.02; done");
    ASSERT_TRUE(appears("ready." + name));
    ::kill(launcher, number);
    EXPECT_EQ(status_of(launcher), 3) << name;
    EXPECT_EQ(content(file), "x\n") << name;
  }
}

TEST_F(Child, StopAndContinueReachTheCommand) {
  const pid_t launcher = launcher_of("echo $$ > pid; mv pid ready; sleep 0.2; touch done");
  ASSERT_TRUE(appears("ready"));
  ::kill(launcher, SIGTSTP);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher, &status, WUNTRACED), launcher);
  ASSERT_TRUE(WIFSTOPPED(status)) << "the shell has to see its job stopped";
  ::kill(launcher, SIGCONT);
  EXPECT_EQ(status_of(launcher), 0);
  EXPECT_TRUE(std::filesystem::exists("done"));
}

TEST_F(Child, TheCommandGetsTheSignalMaskAndDispositionsOfTheLauncher) {
  // The signals that people use are the low 31 bits; glibc leaves its own two ignored in what it
  // spawns.
  const auto signals_of = [](const std::string& status) {
    std::vector<unsigned long> masks;
    for (const char* const name : {"SigBlk:", "SigIgn:"})
      masks.push_back(std::stoul(status.substr(status.find(name) + 8, 16), nullptr, 16) &
                      0x7FFFFFFF);
    return masks;
  };
  ASSERT_EQ(run_child("/bin/cp", {"cp", "/proc/self/status", "status"}, {})->exit_status, 0);
  EXPECT_EQ(signals_of(content("status")), signals_of(content("/proc/self/status")));
}

TEST_F(Child, TheLauncherIsAsItWasAfterwards) {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ASSERT_TRUE(shell("exit 0").ok());
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGTSTP})
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal));
}

TEST(DeviceProbe, AnswersWhatTheDriverAnswers) {
  EXPECT_EQ(*probe_devices([]() -> Result<int> { return 8; }), 8);
  const Result<int> none = probe_devices([]() -> Result<int> {
    return Error(Code::kNotFound, "no CUDA driver (libcuda.so.1: gone)");
  });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_EQ(none.error().message(), "no CUDA driver (libcuda.so.1: gone)");
}

TEST(DeviceProbe, ADriverThatCrashesExitsOrHangsIsAnAnswerToo) {
  EXPECT_EQ(probe_devices([]() -> Result<int> {
              ::raise(SIGKILL);
              return 1;
            })
                .error()
                .message(),
            "the CUDA driver died of signal 9");
  EXPECT_EQ(probe_devices([]() -> Result<int> { ::_exit(0); }).error().message(),
            "the CUDA driver ended the process that asked it");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(probe_devices(
                []() -> Result<int> {
                  for (;;) ::pause();
                },
                1000)
                .error()
                .message(),
            "the CUDA driver did not answer within 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(DeviceProbe, WhatADriverPrintsIsNotSeen) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(*probe_devices([]() -> Result<int> {
    if (::write(1, "noise", 5) != 5) return 0;
    return 2;
  }),
            2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace sabot::launch
