// The command before it runs: found as a shell finds it, looked into, given the right environment.
#include "launch/command.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <algorithm>

#include <filesystem>
#include <fstream>

#include "launch/child_environment.hpp"
#include "launch/installation.hpp"
#include "run/scratch_folder_test.hpp"

namespace sabot::launch {
namespace {

using config::Snapshot;

class Commands : public run::ScratchFolder {
 protected:
  static void script(const std::string& path, const std::string& text, mode_t mode = 0755) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  }
  static std::string error_of(const std::string& word, std::string_view path) {
    const Result<std::string> program = find_program(word, path);
    return program.ok() ? "found " + *program : program.error().message();
  }
};

TEST_F(Commands, AWordIsLookedUpAlongThePath) {
  std::filesystem::create_directories("a");
  std::filesystem::create_directories("b/tool");
  std::filesystem::create_directories("c");
  script("a/tool", "#!/bin/sh\n", 0644);
  script("c/tool", "#!/bin/sh\n");
  EXPECT_EQ(*find_program("tool", "a:b:c"), "c/tool") << "no file, a folder, then the program";
  EXPECT_EQ(*find_program("c/tool", ""), "c/tool");
  EXPECT_TRUE(find_program("sh", "").ok()) << "an empty PATH is the system's default";
}

TEST_F(Commands, AWordThatIsNoProgramSaysWhy) {
  std::filesystem::create_directories("bin");
  script("bin/torchrun", "#!/bin/sh\n");
  script("notes.txt", "x", 0644);
  script("local", "#!/bin/sh\n");
  EXPECT_EQ(error_of("torchrn", "bin"),
            "cannot run 'torchrn': there is no such program in PATH; did you mean 'torchrun'?");
  EXPECT_EQ(error_of("zzzz", "bin"), "cannot run 'zzzz': there is no such program in PATH");
  EXPECT_EQ(error_of("local", "bin"),
            "cannot run 'local': there is no such program in PATH; a program of this folder is run "
            "as ./local");
  EXPECT_EQ(error_of("./notes.txt", ""), "cannot run './notes.txt': it is not executable");
  EXPECT_EQ(error_of("./bin", ""), "cannot run './bin': it is a directory");
  EXPECT_EQ(error_of("./gone", ""), "cannot run './gone': No such file or directory");
  EXPECT_EQ(error_of("", ""), "cannot run '': the name is empty");
}

TEST_F(Commands, AScriptNamesItsInterpreter) {
  std::filesystem::create_directories("bin");
  script("bin/python3", "#!/bin/sh\n");
  script("a", "#!/usr/bin/python3.11 -u\nimport torch\n");
  script("b", "#!/usr/bin/env python3\n");
  script("c", "#!/usr/bin/env -S OMP_NUM_THREADS=1 python3 -u\n");
  script("d", "#! /bin/bash\n");
  script("e", "plain text");
  EXPECT_EQ(interpreter_of("a", "bin"), "/usr/bin/python3.11");
  EXPECT_EQ(interpreter_of("b", "bin"), "bin/python3");
  EXPECT_EQ(interpreter_of("c", "bin"), "bin/python3");
  EXPECT_EQ(interpreter_of("d", "bin"), "/bin/bash");
  EXPECT_EQ(interpreter_of("e", "bin"), "");
  EXPECT_EQ(interpreter_of("gone", "bin"), "");
}

TEST(Programs, PythonIsKnownByItsName) {
  EXPECT_TRUE(is_python("/usr/bin/python3.11"));
  EXPECT_TRUE(is_python("python"));
  EXPECT_TRUE(is_python("pypy3"));
  EXPECT_FALSE(is_python("/usr/bin/python3-config"));
  EXPECT_FALSE(is_python("bash"));
}

TEST_F(Commands, ProgramsWithoutNcclAreReachable) {
  EXPECT_EQ(unreachable_text("/bin/sh"), "");
  EXPECT_EQ(unreachable_text("/proc/self/exe"), "") << "this program itself names NCCL";
  script("text", "no ELF");
  EXPECT_EQ(unreachable_text("text"), "");
}

TEST(Words, AreQuotedForAShell) {
  EXPECT_EQ(quoted({"python3", "a b.py", "it's", ""}), "python3 'a b.py' 'it'\\''s' ''");
  EXPECT_EQ(quoted("AllReduce[rank=1]=error(SystemError)"),
            "'AllReduce[rank=1]=error(SystemError)'");
}

TEST(Preload, StandsInFrontAndReplacesNothing) {
  EXPECT_EQ(preload_with("/s/lib/libsabot.so", "/s", ""), "/s/lib/libsabot.so");
  EXPECT_EQ(preload_with("/s/lib/libsabot.so", "/s", "/a/libjemalloc.so:libx.so"),
            "/s/lib/libsabot.so:/a/libjemalloc.so:libx.so");
  EXPECT_EQ(preload_with("/s/lib/libsabot.so", "/s", "/a.so /b.so"),
            "/s/lib/libsabot.so:/a.so:/b.so");
}

TEST(Preload, OfAnOuterRunIsTakenOut) {
  EXPECT_EQ(preload_with("/s/lib/libsabot.so", "/s", "/s/lib/standin/libnccl.so.2:/a.so"),
            "/s/lib/libsabot.so:/a.so");
  EXPECT_EQ(preload_with("/s/lib/libsabot.so", "/s", "/s/lib/libsabot.so"), "/s/lib/libsabot.so");
}

TEST(PythonPath, EndsWithThePackageAndHidesNothing) {
  EXPECT_EQ(python_path_with("/s/python", ""), "/s/python");
  EXPECT_EQ(python_path_with("/s/python", "/a:/b"), "/a:/b:/s/python");
  EXPECT_EQ(python_path_with("/s/python", "/s/python:/a"), "/s/python:/a");
  EXPECT_EQ(python_path_with("", "/a"), "/a");
  EXPECT_EQ(python_path_with("/with:colon/python", "/a"), "/a");
}

std::vector<std::string> environment_of(
    std::vector<const char*> before, std::vector<config::Assignment> command_line = {},
    std::vector<std::pair<std::string, std::string>> variables = {}) {
  before.push_back(nullptr);
  const Snapshot settings =
      Snapshot::resolve({.environment = before.data(), .command_line = command_line});
  const ChildSettings child{.preload = "/s/lib/libsabot.so",
                            .tree = "/s",
                            .python = "/s/python",
                            .engine = "real",
                            .run_folder = "/runs/1",
                            .scenario = "/runs/1/scenario.toml",
                            .faults = "",
                            .launcher = "node.7",
                            .working_folder = "/here",
                            .variables = std::move(variables)};
  return child_environment(before.data(), settings, child);
}

TEST(ChildEnvironment, VariablesOfTheRunReplaceThoseOfTheirNames) {
  const std::vector<std::string> lines =
      environment_of({"NCCL_NET=Socket", "NCCL_NET_GDR_LEVEL=0"}, {}, {{"NCCL_NET", "Sabot"}});
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "NCCL_NET=Socket"), 0);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "NCCL_NET=Sabot"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "NCCL_NET_GDR_LEVEL=0"), 1);
}

TEST(ChildEnvironment, AddsTheRunAndKeepsWhatIsForeign) {
  const std::vector<std::string> expected{"HOME=/u",
                                          "LD_PRELOAD=/s/lib/libsabot.so:/a.so",
                                          "PYTHONPATH=/mine:/s/python",
                                          "SABOT_ENGINE=real",
                                          "SABOT_SCENARIO=/runs/1/scenario.toml",
                                          "SABOT_RUN_FOLDER=/runs/1",
                                          "SABOT_LAUNCHER=node.7"};
  EXPECT_EQ(
      environment_of({"HOME=/u", "PYTHONPATH=/mine", "LD_PRELOAD=/a.so", "SABOT_ENGINE=auto"}),
      expected);
}

TEST(ChildEnvironment, PassesOnKnobsOfBothSourcesAndDropsWhatCannotBeRead) {
  const std::vector<std::string> lines =
      environment_of({"SABOT_TIMEOUT=30s", "SABOT_LOG_RATE=fast", "SABOT_LOG=off", "SABOT_TYPO=1"},
                     {{config::KnobId::kLog, "calls"}, {config::KnobId::kLogFile, "c.%r.log"}});
  const auto has = [&lines](const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  EXPECT_TRUE(has("SABOT_TIMEOUT=30s"));
  EXPECT_TRUE(has("SABOT_LOG=calls"));
  EXPECT_TRUE(has("SABOT_LOG_FILE=/here/c.%r.log")) << "the command may change its folder";
  for (const std::string& line : lines) {
    EXPECT_FALSE(line.starts_with("SABOT_LOG_RATE")) << line;
    EXPECT_FALSE(line.starts_with("SABOT_TYPO")) << line;
  }
}

TEST_F(Commands, ThePythonPackageIsFoundWhereItIsPartOfTheTree) {
  EXPECT_EQ(python_folder(Installation{"tree"}), "");
  std::filesystem::create_directories("tree/python/sabot");
  script("tree/python/sabot/__init__.py", "");
  EXPECT_EQ(python_folder(Installation{"tree"}), "tree/python");
}

TEST_F(Commands, AMissingLibraryAndAPathThatCannotBePreloadedAreErrors) {
  EXPECT_EQ(
      checked_library("lib/libsabot.so").error().message(),
      "'lib/libsabot.so' is missing beside this program; the tree of bin, lib and share has to "
      "stay together: run `make` again, or install it with `make install`");
  std::filesystem::create_directories("my tools");
  script("my tools/libsabot.so", "x");
  EXPECT_EQ(checked_library("my tools/libsabot.so").error().message(),
            "'my tools/libsabot.so' contains a space or a colon, which LD_PRELOAD cannot express; "
            "install Sabot under a path without them");
}

}  // namespace
}  // namespace sabot::launch
