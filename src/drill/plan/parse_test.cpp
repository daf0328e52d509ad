// Plans as people write them, and the mistakes they make: every text in full.
#include "drill/plan/parse.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "drill/plan/pattern.hpp"

namespace sabot::drill {
namespace {

constexpr const char* kWhole = R"toml(sabot = 1
name = "the training recovers"
command = ["torchrun", "train.py"]
engine = "host"
deadline = "90s"
parallel = 2
seed = 7
progress = "stdout:step ([0-9]+)"
check = ["python3", "check.py", "{work}"]
expect = { outcome = "recovers" }

[[needs]]
command = ["python3", "-c", "import torch"]
otherwise = "torch is not installed"

[[scenario]]
name = "written here"
deadline = "30s"
[[scenario.fault]]
name = "nic-dies"
when = { call = "AllReduce", nth = 3 }
do = { error = "SystemError" }
[scenario.expect]
outcome = "fails-cleanly"
fired = { "nic-dies" = 1 }

[[scenario]]
file = "other.toml"

[generate]
calls = ["AllReduce", "ncclBroadcast"]
actions = ["error(SystemError)", "hang"]
ranks = [0, 2]
phases = ["init", "steady"]
budget = 5
expect = { detected_within = "5s" }
)toml";

std::string problems_of(const std::string& text) {
  const Result<Plan> plan = parse_plan(text, "plan.toml");
  return plan.ok() ? "" : plan.error().message();
}

std::string with(const std::string& lines) {
  return "sabot = 1\n" + lines +
         "\n[[scenario]]\n[[scenario.fault]]\nwhen = { call = \"AllReduce\" }\ndo = { error = "
         "\"SystemError\" }\n";
}

TEST(PlanFile, EveryKeyIsReadAsWritten) {
  const Result<Plan> read = parse_plan(kWhole, "plan.toml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  const Plan& plan = *read;
  EXPECT_EQ(plan.name, "the training recovers");
  EXPECT_EQ(plan.command, (std::vector<std::string>{"torchrun", "train.py"}));
  EXPECT_EQ(plan.engine, "host");
  EXPECT_EQ(plan.deadline_ns, 90'000'000'000U);
  EXPECT_TRUE(plan.has_baseline);
  EXPECT_EQ(plan.parallel, 2U);
  EXPECT_EQ(plan.seed, 7U);
  EXPECT_EQ(plan.progress->source, "stdout");
  EXPECT_EQ(plan.progress->regex, "step ([0-9]+)");
  EXPECT_EQ(plan.check.command.size(), 3U);
  EXPECT_EQ(plan.expect->outcomes, scenario::bit_of(scenario::Outcome::kRecovers));
  EXPECT_EQ(plan.needs.at(0).otherwise, "torch is not installed");
  ASSERT_EQ(plan.scenarios.size(), 2U);
  EXPECT_EQ(plan.scenarios[0].scenario.name, "written here");
  EXPECT_EQ(plan.scenarios[0].deadline_ns, 30'000'000'000U);
  EXPECT_EQ(plan.scenarios[0].scenario.faults.at(0).name, "nic-dies");
  EXPECT_EQ(plan.scenarios[0].scenario.expect->fired.at(0).count, 1U);
  EXPECT_EQ(plan.scenarios[1].file, "other.toml");
  ASSERT_EQ(plan.generators.size(), 1U);
  const Generate& generate = plan.generators[0];
  EXPECT_EQ(generate.calls, (std::vector<std::string>{"AllReduce", "ncclBroadcast"}));
  EXPECT_EQ(generate.actions, (std::vector<std::string>{"error(SystemError)", "hang"}));
  EXPECT_TRUE(generate.ranks.contains(2));
  EXPECT_FALSE(generate.ranks.contains(1));
  EXPECT_EQ(generate.phases, (std::vector<Phase>{Phase::kInit, Phase::kSteady}));
  EXPECT_EQ(generate.budget, 5U);
  EXPECT_EQ(generate.expect->detected_within_ns, 5'000'000'000U);
}

TEST(PlanFile, WordsThatAreNoKeysAreRefusedWithTheNearest) {
  EXPECT_EQ(problems_of(with("comand = [\"x\"]")),
            "plan.toml:2: key 'comand': unknown key; did you mean 'command'?");
  EXPECT_EQ(problems_of("sabot = 1\n[[generate]]\nactions = [\"hang\"]\nbuget = 3\n"),
            "plan.toml:4: key 'generate.buget': unknown key; did you mean 'budget'?");
}

TEST(PlanFile, ValuesOfAnotherTypeAreRefusedWithWhatWasExpected) {
  EXPECT_EQ(problems_of(with("command = \"torchrun train.py\"")),
            "plan.toml:2: key 'command': expected a list of words: [\"torchrun\", \"train.py\"]; "
            "found the text 'torchrun train.py'");
  EXPECT_EQ(problems_of(with("parallel = 0")),
            "plan.toml:2: key 'parallel': expected a whole number from 1 to 64; found the number "
            "0");
  EXPECT_EQ(problems_of(with("engine = \"gpu\"")),
            "plan.toml:2: key 'engine': expected auto, real or host; found the text 'gpu'");
}

TEST(PlanFile, EverythingThatIsWrongIsSaidAtOnce) {
  const std::string problems = problems_of("name = 3\n[[scenario]]\nfile = 4\n");
  EXPECT_NE(problems.find("key 'sabot': missing; a plan begins with 'sabot = 1'"),
            std::string::npos)
      << problems;
  EXPECT_NE(problems.find("plan.toml:1: key 'name': expected a text"), std::string::npos);
  EXPECT_NE(problems.find("plan.toml:3: key 'scenario.file'"), std::string::npos);
}

TEST(PlanFile, WithoutScenarioOrGeneratorThereIsNothingToDrill) {
  EXPECT_EQ(problems_of("sabot = 1\n"),
            "plan.toml: key 'scenario': missing; a plan has at least one [[scenario]] or "
            "[[generate]]");
}

TEST(PlanFile, FunctionThatNcclLacksIsRefused) {
  EXPECT_EQ(problems_of("sabot = 1\n[generate]\ncalls = [\"AllReduse\"]\nactions = [\"hang\"]\n"),
            "plan.toml:3: key 'generate.calls': NCCL has no function 'AllReduse'; did you mean "
            "'AllReduce'?");
}

TEST(PlanFile, ActionThatCannotBeReadIsRefused) {
  const std::string problems =
      problems_of("sabot = 1\n[generate]\nactions = [\"eror(SystemError)\"]\n");
  EXPECT_NE(problems.find("plan.toml:3: key 'generate.actions'"), std::string::npos) << problems;
  EXPECT_NE(problems.find("eror"), std::string::npos) << problems;
}

TEST(PlanFile, GeneratorAndCheckNeedABaseline) {
  EXPECT_EQ(problems_of("sabot = 1\nbaseline = false\n[generate]\nactions = [\"hang\"]\n"),
            "plan.toml:3: key 'generate': needs the calls of a baseline, and 'baseline = false' "
            "asks for none; remove one of the two");
  EXPECT_NE(problems_of(with("baseline = false\ncheck = [\"x\"]")).find("key 'check': compares"),
            std::string::npos);
}

TEST(PlanFile, ContradictingExpectationsAreRefusedAsInScenarios) {
  const std::string problems =
      problems_of(with("expect = { detected_within = \"9s\", finished_within = \"5s\" }"));
  EXPECT_NE(problems.find("plan.toml:2: key 'expect.detected_within': is longer than"),
            std::string::npos)
      << problems;
}

TEST(PlanFile, ScenarioIsEitherAFileOrWrittenInThePlan) {
  EXPECT_NE(problems_of("sabot = 1\n[[scenario]]\nfile = \"a.toml\"\n[scenario.expect]\noutcome = "
                        "\"hangs\"\n")
                .find("a scenario is either a file or written here"),
            std::string::npos);
}

TEST(PlanFile, PatternNeedsASourceAndARegularExpression) {
  EXPECT_NE(problems_of(with("progress = \"step [0-9]+\"")).find("expected SOURCE:REGEX"),
            std::string::npos);
  EXPECT_NE(problems_of(with("progress = \"stdout:step (\"")).find("is no regular expression"),
            std::string::npos);
}

TEST(PlanFile, NoTextIsAPlan) {
  EXPECT_NE(problems_of("").find("plan.toml: empty"), std::string::npos);
  EXPECT_NE(problems_of("sabot = [").find("not valid TOML"), std::string::npos);
  EXPECT_NE(problems_of(std::string("sabot\0= 1", 9)).find("a zero byte"), std::string::npos);
}

TEST(PlanFile, ScenarioFilesLieRelativeToThePlan) {
  std::string folder = testing::TempDir() + "sabot-plan-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/plan.toml") << "sabot = 1\n[[scenario]]\nfile = \"one.toml\"\n";
  Result<Plan> plan = load_plan(folder + "/plan.toml");
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message().find("plan.toml:2: key 'scenario.file':"), std::string::npos)
      << plan.error().message();
  std::ofstream(folder + "/one.toml") << "sabot = 1\n[[fault]]\nwhen = { call = \"AllReduce\" "
                                         "}\ndo = { error = \"SystemError\" }\n";
  plan = load_plan(folder + "/plan.toml");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->scenarios.at(0).scenario.faults.size(), 1U);
  std::filesystem::remove_all(folder);
}

TEST(Matcher, GivesTheParenthesisedPartsOrTheWholeMatch) {
  const Result<Matcher> matcher = Matcher::compile("rank ([0-9]+) has ([a-z]+)");
  EXPECT_EQ(matcher->match("x rank 12 has abc."), (std::vector<std::string>{"12", "abc"}));
  EXPECT_EQ(matcher->match("rank has"), std::nullopt);
  EXPECT_EQ(Matcher::compile("[0-9]+")->match("a 17 b"), (std::vector<std::string>{"17"}));
}

}  // namespace
}  // namespace sabot::drill
