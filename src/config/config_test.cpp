// Knobs: precedence of the sources, wrong values as sentences, unknown names, the generated
// reference.
#include <gtest/gtest.h>

#include <set>

#include "config/snapshot.hpp"

namespace sabot::config {
namespace {

Snapshot from(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return Snapshot::resolve({.environment = environment.data()});
}

TEST(Snapshot, AnEmptyEnvironmentGivesTheDefaults) {
  const Snapshot snapshot = from({});
  EXPECT_EQ(snapshot.get<KnobId::kEngine>(), EngineChoice::kAuto);
  EXPECT_EQ(snapshot.get<KnobId::kLogRate>(), 1000u);
  EXPECT_EQ(snapshot.get<KnobId::kTimeout>(), 120'000'000'000u);
  EXPECT_FALSE(snapshot.get<KnobId::kDisable>());
  EXPECT_FALSE(snapshot.is_set(KnobId::kScenario));
  EXPECT_EQ(snapshot.get<KnobId::kScenario>(), "");
  EXPECT_EQ(snapshot.world_rank(), std::nullopt);
  EXPECT_EQ(snapshot.attempt(), 0);
  EXPECT_TRUE(snapshot.problems().empty());
}

TEST(Snapshot, TheEnvironmentIsReadWithItsTypes) {
  const Snapshot snapshot = from({"SABOT_ENGINE=Host", "SABOT_DISABLE=yes", "SABOT_TIMEOUT=1.5s",
                                  "SABOT_LOG=calls", "SABOT_FAULT=a=b;c=d"});
  EXPECT_EQ(snapshot.get<KnobId::kEngine>(), EngineChoice::kHost);
  EXPECT_TRUE(snapshot.get<KnobId::kDisable>());
  EXPECT_EQ(snapshot.get<KnobId::kTimeout>(), 1'500'000'000u);
  EXPECT_EQ(snapshot.get<KnobId::kLog>(), LogChoice::kCalls);
  EXPECT_EQ(snapshot.get<KnobId::kFault>(), "a=b;c=d");
  EXPECT_EQ(snapshot.value(KnobId::kEngine).source, Source::kEnvironment);
}

TEST(Snapshot, TheCommandLineWinsOverTheEnvironmentAndThatOverTheFile) {
  const char* const environment[] = {"SABOT_SEED=2", nullptr};
  const Assignment file[] = {{KnobId::kSeed, "1"}};
  const Assignment command_line[] = {{KnobId::kSeed, "3"}};
  const auto seed = [&](const Sources& sources) {
    const Snapshot snapshot = Snapshot::resolve(sources);
    return std::pair(snapshot.get<KnobId::kSeed>(), snapshot.value(KnobId::kSeed).source);
  };
  EXPECT_EQ(seed({.file = file}), std::pair(std::uint64_t{1}, Source::kFile));
  EXPECT_EQ(seed({.environment = environment, .file = file}),
            std::pair(std::uint64_t{2}, Source::kEnvironment));
  EXPECT_EQ(seed({.environment = environment, .command_line = command_line, .file = file}),
            std::pair(std::uint64_t{3}, Source::kCommandLine));
}

TEST(Snapshot, AWrongValueIsReportedOnceAndTheDefaultCounts) {
  const Snapshot snapshot = from({"SABOT_ENGINE=fast"});
  EXPECT_EQ(snapshot.get<KnobId::kEngine>(), EngineChoice::kAuto);
  ASSERT_EQ(snapshot.problems().size(), 1u);
  const Problem& problem = snapshot.problems()[0];
  EXPECT_EQ(problem.name, "SABOT_ENGINE");
  EXPECT_EQ(problem.value, "fast");
  EXPECT_EQ(problem.expected, "one of auto, real, host");
  EXPECT_EQ(problem.example, "host");
  EXPECT_EQ(problem.text,
            "SABOT_ENGINE='fast' is not one of auto, real, host; write for instance "
            "SABOT_ENGINE=host; using auto");
}

TEST(Snapshot, EveryKindRefusesWhatItCannotRead) {
  EXPECT_EQ(from({"SABOT_LOG_RATE=-1"}).problems().at(0).text,
            "SABOT_LOG_RATE='-1' is not a whole number, 0 or more; write for instance "
            "SABOT_LOG_RATE=100; using 1000");
  EXPECT_EQ(from({"SABOT_TIMEOUT=30"}).problems().at(0).text,
            "SABOT_TIMEOUT='30' is not a duration with its unit; write for instance "
            "SABOT_TIMEOUT=30s; using 120s");
  EXPECT_EQ(from({"SABOT_QUIET=maybe"}).problems().at(0).text,
            "SABOT_QUIET='maybe' is not one of 0, 1, off, on, false, true, no, yes; write for "
            "instance SABOT_QUIET=1; using 0");
  EXPECT_EQ(from({"RANK=first"}).problems().at(0).text,
            "RANK='first' is not a whole number, 0 or more; it is ignored");
  EXPECT_EQ(from({"SABOT_SEED=18446744073709551616"}).problems().size(), 1u);
  const std::string huge = "SABOT_FAULT=" + std::string(70000, 'x');
  EXPECT_FALSE(from({huge.c_str()}).is_set(KnobId::kFault));
  const std::string long_path = "PATH=" + std::string(70000, 'x');
  EXPECT_TRUE(from({long_path.c_str()}).problems().empty()) << "it is not ours to judge";
}

TEST(Snapshot, AnUnknownVariableOfOursIsReportedWithTheNearestName) {
  const Snapshot snapshot = from({"SABOT_SCENARO=x", "SABOT_ZZZZZZZZZZ=1", "OTHER=1", "NOEQUALS"});
  ASSERT_EQ(snapshot.problems().size(), 2u);
  EXPECT_EQ(snapshot.problems()[0].text,
            "SABOT_SCENARO is not a variable of Sabot; did you mean SABOT_SCENARIO?");
  EXPECT_EQ(snapshot.problems()[1].text,
            "SABOT_ZZZZZZZZZZ is not a variable of Sabot; `sabot help knobs` lists them");
}

TEST(Snapshot, AnEmptyVariableCountsAsNotSet) {
  const Snapshot snapshot = from({"SABOT_ENGINE=", "SABOT_RUN_FOLDER="});
  EXPECT_EQ(snapshot.get<KnobId::kEngine>(), EngineChoice::kAuto);
  EXPECT_FALSE(snapshot.is_set(KnobId::kRunFolder));
  EXPECT_TRUE(snapshot.problems().empty());
}

TEST(Snapshot, TheWorldRankComesFromTheFirstLauncherThatNamesOne) {
  EXPECT_EQ(from({"SLURM_PROCID=7"}).world_rank(), 7);
  EXPECT_EQ(from({"SLURM_PROCID=7", "PMI_RANK=3"}).world_rank(), 3);
  EXPECT_EQ(from({"OMPI_COMM_WORLD_RANK=5", "PMI_RANK=3"}).world_rank(), 5);
  EXPECT_EQ(from({"RANK=0", "OMPI_COMM_WORLD_RANK=5"}).world_rank(), 0);
  EXPECT_EQ(from({"RANK=99999999999"}).world_rank(), 2147483647);
}

TEST(Snapshot, TheAttemptComesFromUsThenTorchrunThenSlurm) {
  EXPECT_EQ(from({"SLURM_RESTART_COUNT=4"}).attempt(), 4);
  EXPECT_EQ(from({"SLURM_RESTART_COUNT=4", "TORCHELASTIC_RESTART_COUNT=2"}).attempt(), 2);
  EXPECT_EQ(from({"SABOT_ATTEMPT=1", "TORCHELASTIC_RESTART_COUNT=2"}).attempt(), 1);
}

TEST(Snapshot, AJobOverSeveralHostsIsRecognisedByItsLauncher) {
  EXPECT_FALSE(from({"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8"}).spans_hosts());
  EXPECT_FALSE(from({"WORLD_SIZE=16"}).spans_hosts());
  EXPECT_TRUE(from({"WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8"}).spans_hosts());
  EXPECT_TRUE(from({"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"}).spans_hosts());
  EXPECT_TRUE(from({"SLURM_STEP_NUM_NODES=2"}).spans_hosts());
  EXPECT_FALSE(from({"SLURM_STEP_NUM_NODES=1"}).spans_hosts());
}

TEST(Snapshot, RowsNameValueAndSourceAndLeaveOutForeignVariablesThatAreNotSet) {
  const Snapshot snapshot = from({"SABOT_ENGINE=host", "RANK=1"});
  bool engine = false;
  for (const Row& row : snapshot.rows()) {
    if (row.name == "SABOT_ENGINE") engine = row.value == "host" && row.source == "environment";
    EXPECT_NE(row.name, "WORLD_SIZE");
  }
  EXPECT_TRUE(engine);
  EXPECT_EQ(snapshot.rows().back().name, "RANK");
}

TEST(Knobs, NamesAreUniqueAndEachRowOfOursCanReadItsOwnDefaultAndExample) {
  std::set<std::string_view> names;
  for (const Knob& knob : kKnobs) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_TRUE(knob.description.ends_with('.')) << knob.name;
    EXPECT_EQ(knob.foreign, !knob.name.starts_with("SABOT_")) << knob.name;
    EXPECT_TRUE(parse_value(knob, knob.fallback).ok()) << knob.name;
    if (knob.foreign) continue;
    EXPECT_TRUE(parse_value(knob, knob.example).ok()) << knob.name;
    EXPECT_EQ((knob.sources & kCommandLine) != 0, !knob.option.empty()) << knob.name;
  }
}

TEST(Knobs, TheReferenceHasOneHeadingForEachOfOurKnobs) {
  const std::string page = reference_markdown();
  for (const Knob& knob : kKnobs) {
    const std::string mark = knob.foreign ? "| `" : "### `";
    EXPECT_NE(page.find(mark + std::string(knob.name) + "`"), std::string::npos) << knob.name;
  }
  EXPECT_NE(page.find("| `auto`, `real`, `host` | `auto` | command line `--engine`, environment | "
                      "`host` | 0.1 |"),
            std::string::npos);
}

TEST(Process, TheSnapshotOfTheProcessIsReadOnce) { EXPECT_EQ(&process(), &process()); }

}  // namespace
}  // namespace sabot::config
