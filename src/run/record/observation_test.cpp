// What the application was told, written by one process and read back by another.
#include "run/record/observation.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>

#include "run/read/observation_reader.hpp"
#include "run/recorder.hpp"
#include "run/scratch_folder_test.hpp"

namespace sabot::run {
namespace {

SeenEntry remote_error() {
  SeenEntry entry;
  entry.kind = SeenKind::kError;
  entry.function = "AllReduce";
  entry.code = "ncclRemoteError";
  entry.comm = "c0";
  entry.rank = 1;
  entry.world_rank = 5;
  entry.attempt = 2;
  entry.nth = 7;
  return entry;
}

class Observations : public ScratchFolder {
 protected:
  std::size_t lines_of(SeenKind kind) const {
    std::size_t count = 0;
    for (const SeenLine& line : read_observations(path_).lines) count += line.kind == kind ? 1 : 0;
    return count;
  }
};

TEST_F(Observations, AnErrorIsReadBackAsItWasSeen) {
  Observation observation;
  observation.open(path_, "node7.11");
  SeenEntry entry = remote_error();
  entry.injected = true;
  ASSERT_TRUE(observation.note(entry).ok());
  const ObservationContent content = read_observations(path_);
  ASSERT_EQ(content.lines.size(), 1U);
  EXPECT_TRUE(content.problems.empty());
  const SeenLine& line = content.lines[0];
  EXPECT_EQ(line.kind, SeenKind::kError);
  EXPECT_EQ(line.function, "AllReduce");
  EXPECT_EQ(line.code, "ncclRemoteError");
  EXPECT_EQ(line.comm, "c0");
  EXPECT_EQ(line.rank, 1);
  EXPECT_EQ(line.world_rank, 5);
  EXPECT_EQ(line.attempt, 2);
  EXPECT_EQ(line.nth, 7U);
  EXPECT_TRUE(line.injected);
  EXPECT_EQ(line.pid, ::getpid());
  EXPECT_GT(line.epoch_ns, 1'700'000'000'000'000'000U);
}

TEST_F(Observations, OnlyTheFirstOfEqualErrorsIsWritten) {
  Observation observation;
  observation.open(path_, "node7.11");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(observation.note(remote_error()).ok());
  EXPECT_EQ(lines_of(SeenKind::kError), 1U);
}

TEST_F(Observations, ErrorsOfOtherKindCodeCommOrRankAreWrittenToo) {
  Observation observation;
  observation.open(path_, "node7.11");
  SeenEntry entry = remote_error();
  ASSERT_TRUE(observation.note(entry).ok());
  entry.code = "ncclSystemError";
  ASSERT_TRUE(observation.note(entry).ok());
  entry.comm = "c0/s0";
  ASSERT_TRUE(observation.note(entry).ok());
  entry.world_rank = 6;
  ASSERT_TRUE(observation.note(entry).ok());
  entry.kind = SeenKind::kAsyncError;
  ASSERT_TRUE(observation.note(entry).ok());
  EXPECT_EQ(lines_of(SeenKind::kError), 4U);
  EXPECT_EQ(lines_of(SeenKind::kAsyncError), 1U);
}

TEST_F(Observations, ProcessThatRecreatesForEverLeavesRoomForAnError) {
  Observation observation;
  observation.open(path_, "node7.11");
  SeenEntry entry = remote_error();
  entry.kind = SeenKind::kCreated;
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(observation.note(entry).ok());
  ASSERT_TRUE(observation.note(remote_error()).ok());
  EXPECT_EQ(lines_of(SeenKind::kCreated), Observation::kLinesMax / 2);
  EXPECT_EQ(lines_of(SeenKind::kError), 1U);
}

TEST_F(Observations, ForkedChildWritesNothingIntoItsParentsFile) {
  Observation observation;
  observation.open(path_, "node7.11");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(observation.note(remote_error()).ok() ? 0 : 1);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lines_of(SeenKind::kError), 0U);
}

TEST_F(Observations, WithoutRunFolderNothingIsWritten) {
  Observation observation;
  observation.open("", "node7.11");
  ASSERT_TRUE(observation.note(remote_error()).ok());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(Observations, LineThatWasCutIsNamedAndTheRestStillCounts) {
  Observation observation;
  observation.open(path_, "node7.11");
  ASSERT_TRUE(observation.note(remote_error()).ok());
  std::ofstream(path_ + "/seen/node7.11.jsonl", std::ios::app) << R"({"time_ns":17,"seen":"er)";
  const ObservationContent content = read_observations(path_);
  EXPECT_EQ(content.lines.size(), 1U);
  ASSERT_EQ(content.problems.size(), 1U);
  EXPECT_NE(content.problems[0].find("/seen/node7.11.jsonl:2: not JSON"), std::string::npos)
      << content.problems[0];
}

TEST_F(Observations, RecorderOfProcessKeepsOneInItsRun) {
  RecorderOptions options;
  options.run_folder = path_;
  Recorder recorder(options);
  ASSERT_TRUE(recorder.observation().note(remote_error()).ok());
  EXPECT_EQ(lines_of(SeenKind::kError), 1U);
}

}  // namespace
}  // namespace sabot::run
