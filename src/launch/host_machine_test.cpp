// The real answers of this machine to the questions of the search.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/nccl_search.hpp"

namespace sabot::launch {
namespace {

constexpr const char* kPath = "/usr/local/bin:/usr/bin:/bin";

TEST(HostMachine, KnowsWhatAProgramIsLinkedTo) {
  HostMachine machine(kPath);
  const std::string shell = machine.program_of("sh");
  ASSERT_FALSE(shell.empty());
  const std::vector<std::string> needed = machine.links_of(shell).needed;
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
  EXPECT_TRUE(machine.links_of("/etc/passwd").needed.empty());
  EXPECT_EQ(machine.program_of("no-such-program"), "");
}

TEST(HostMachine, FindsTheLibrariesOfTheLoadersCache) {
  HostMachine machine(kPath);
  const std::vector<std::string> paths = machine.cached_libraries("libc.so.6");
  ASSERT_FALSE(paths.empty());
  EXPECT_TRUE(machine.is_file(paths[0]));
  EXPECT_TRUE(machine.cached_libraries("libnothing.so.99").empty());
}

TEST(HostMachine, AsksPythonForItsPath) {
  HostMachine machine(kPath);
  const std::string python = machine.program_of("python3");
  if (python.empty()) GTEST_SKIP() << "there is no python3 in " << kPath;
  const std::vector<std::string> folders = machine.python_path(python);
  EXPECT_TRUE(std::any_of(folders.begin(), folders.end(), [](const std::string& folder) {
    return folder.find("python3") != folder.npos;
  }));
  EXPECT_TRUE(machine.python_path("/bin/false").empty());
}

}  // namespace
}  // namespace sabot::launch
