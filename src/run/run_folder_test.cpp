// Run folders: which one a launcher takes, what it refuses to mix, what it leaves for people to
// read.
#include "run/run_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "run/attach_record.hpp"
#include "run/identity.hpp"
#include "run/launcher_mark.hpp"
#include "run/read/attach_reader.hpp"
#include "run/read/json_value.hpp"
#include "run/scratch_folder_test.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

using config::Assignment;
using config::KnobId;
using config::Snapshot;

Snapshot settings(std::vector<const char*> environment, std::vector<Assignment> command_line = {}) {
  environment.push_back(nullptr);
  return Snapshot::resolve({.environment = environment.data(), .command_line = command_line});
}

class Folders : public ScratchFolder {};

TEST_F(Folders, WithoutARequestItIsNamedByTimeAndProcessAndLatestPointsAtIt) {
  const Result<RunFolder> folder = RunFolder::prepare(settings({}));
  ASSERT_TRUE(folder.ok()) << folder.error().message();
  EXPECT_FALSE(folder->joined());
  EXPECT_TRUE(folder->path().starts_with(path_ + "/runs/20"));
  EXPECT_TRUE(folder->path().ends_with("-" + std::to_string(::getpid())));
  EXPECT_EQ(std::filesystem::canonical("runs/latest"), folder->path());
  EXPECT_TRUE(std::filesystem::is_directory(folder->file("journal")));
}

TEST_F(Folders, TheCommandLineWinsOverTheEnvironment) {
  const Result<RunFolder> folder =
      RunFolder::prepare(settings({"SABOT_RUN_FOLDER=a"}, {{KnobId::kRunFolder, "b/c"}}));
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(folder->path(), path_ + "/b/c");
  EXPECT_FALSE(std::filesystem::exists("a"));
  EXPECT_FALSE(std::filesystem::exists("runs")) << "latest is for folders under runs";
}

TEST_F(Folders, AFolderThatHoldsARunIsRefusedOnTheCommandLine) {
  ASSERT_TRUE(RunFolder::prepare(settings({}, {{KnobId::kRunFolder, "first"}})).ok());
  const Result<RunFolder> again = RunFolder::prepare(settings({}, {{KnobId::kRunFolder, "first"}}));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message(),
            "run folder '" + path_ + "/first' already holds a run (of " + process_tag() +
                "), whose budgets and journal a second run would mix with its own; choose another "
                "folder, remove it, or join it by SABOT_RUN_FOLDER instead of --run-folder");
}

TEST_F(Folders, AFolderNamedByTheEnvironmentIsJoined) {
  ASSERT_TRUE(RunFolder::prepare(settings({"SABOT_RUN_FOLDER=shared"})).ok());
  const Result<RunFolder> second = RunFolder::prepare(settings({"SABOT_RUN_FOLDER=shared"}));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->joined());
}

TEST_F(Folders, LaunchersOfOneJobShareItsFolder) {
  const Snapshot task = settings({"SLURM_JOB_ID=81", "SLURM_STEP_ID=0"});
  const Result<RunFolder> first = RunFolder::prepare(task);
  const Result<RunFolder> second = RunFolder::prepare(task);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->path(), path_ + "/runs/slurm-81-0");
  EXPECT_FALSE(first->joined());
  EXPECT_TRUE(second->joined());
  EXPECT_EQ(RunFolder::prepare(settings({"PMIX_NAMESPACE=prterun-a@1"}))->path(),
            path_ + "/runs/pmix-prterun-a%401");
}

TEST_F(Folders, TwoRunsOfOneBatchScriptDoNotShareAFolder) {
  EXPECT_TRUE(job_name(settings({"SLURM_JOB_ID=81"})).starts_with("slurm-81-20"));
  EXPECT_EQ(job_name(settings({})), "");
}

TEST_F(Folders, AProcessJoinsOnlyAFolderThatExists) {
  const Result<RunFolder> missing = RunFolder::join("nowhere");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  std::ofstream("file") << "x";
  EXPECT_FALSE(RunFolder::join("file").ok());
  std::filesystem::create_directory("there");
  EXPECT_EQ(RunFolder::join("there")->path(), path_ + "/there");
}

TEST_F(Folders, AFolderThatCannotBeMadeIsAnErrorWithAdvice) {
  const Result<RunFolder> folder =
      RunFolder::prepare(settings({}, {{KnobId::kRunFolder, "/proc/none"}}));
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().message(),
            "cannot create folder '/proc/none': No such file or directory; name a folder that can "
            "be written with --run-folder");
}

TEST_F(Folders, TheScenarioIsKeptOnceAndAnotherOneIsRefused) {
  const Result<RunFolder> folder = RunFolder::prepare(settings({}, {{KnobId::kRunFolder, "r"}}));
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(*folder->keep_scenario("sabot = 1\n"), path_ + "/r/scenario.toml");
  EXPECT_TRUE(folder->keep_scenario("sabot = 1\n").ok());
  const Result<std::string> other = folder->keep_scenario("sabot = 1\nseed = 2\n");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(
      other.error().message(),
      "run folder '" + path_ +
          "/r' belongs to a run with another scenario; give this run a folder of its own with "
          "--run-folder");
}

TEST_F(Folders, ConfigJsonHoldsCommandEngineAndKnobsWithTheirSources) {
  const Snapshot values = settings({"SABOT_ENGINE=host"}, {{KnobId::kRunFolder, "r"}});
  const Result<RunFolder> folder = RunFolder::prepare(values);
  ASSERT_TRUE(folder.ok());
  RunConfig config;
  config.version = "0.1.0";
  config.command = {"python3", "a b.py"};
  config.engine = "host";
  config.faults = {"nic-dies"};
  config.settings = &values;
  ASSERT_TRUE(write_config(*folder, config).ok());
  config.engine = "real";
  ASSERT_TRUE(write_config(*folder, config).ok()) << "a launcher that joins leaves it alone";
  const Result<JsonValue> json = JsonValue::parse(*read_text_file("config", "r/config.json"));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["engine"].text(), "host");
  EXPECT_EQ((*json)["command"].items().at(1).text(), "a b.py");
  bool found = false;
  for (const JsonValue& knob : (*json)["knobs"].items())
    if (knob["name"].text() == "SABOT_ENGINE") found = knob["source"].text() == "environment";
  EXPECT_TRUE(found);
}

TEST_F(Folders, TheLastLauncherOfARunKnowsThatItIsTheLast) {
  Result<LauncherMark> first = LauncherMark::place(path_, "other-host.1");
  Result<LauncherMark> second = LauncherMark::place(path_, process_tag());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->remove_and_count_others(""), 1u);
  EXPECT_EQ(second->remove_and_count_others(""), 0u);
}

TEST_F(Folders, LaunchersThatDiedAndTheOneAroundThisDoNotCount) {
  std::filesystem::create_directory("launchers");
  std::ofstream("launchers/" + host_name() + ".999999999");
  std::ofstream("launchers/outer.1");
  Result<LauncherMark> mark = LauncherMark::place(path_, process_tag());
  ASSERT_TRUE(mark.ok());
  EXPECT_EQ(mark->remove_and_count_others("outer.1"), 0u);
  std::ofstream("launchers/elsewhere.7");
  EXPECT_EQ(LauncherMark::place(path_, process_tag())->remove_and_count_others("outer.1"), 1u);
}

TEST_F(Folders, AttachRecordsReadBackAsWritten) {
  ASSERT_TRUE(RunFolder::join(path_).ok());
  AttachRecord record;
  record.way = "preload";
  record.engine = "real";
  record.reason = "already mapped";
  record.real_path = "/opt/nccl/libnccl.so.2";
  record.real_version = "2.28.9";
  record.rejected = {{"/usr/lib/libnccl.so.2", "lower version"}};
  record.armed = {"nic-dies"};
  record.rank = 3;
  record.launcher = "node.7";
  ASSERT_TRUE(write_attach_record(path_, process_tag(), record).ok());
  record.attached = false;
  ASSERT_TRUE(write_attach_record(path_, "zz.1", record).ok());
  std::ofstream(path_ + "/attach/zzz.2.json") << "{";
  std::vector<std::string> problems;
  const std::vector<AttachRecord> records = read_attach_records(path_, problems);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records[0].attached);
  EXPECT_FALSE(records[1].attached);
  EXPECT_EQ(records[0].rejected.at(0).reason, "lower version");
  EXPECT_EQ(records[0].armed.at(0), "nic-dies");
  EXPECT_EQ(records[0].rank, 3);
  EXPECT_EQ(records[0].launcher, "node.7");
  EXPECT_EQ(records[0].pid, ::getpid());
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace sabot::run
