// Every scenario that is shipped is one that the parser accepts without a warning.
//
// The only test of this module that reads files: what users copy must not be what a test never saw.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "scenario/parse.hpp"
#include "scenario/print.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario {
namespace {

std::vector<std::filesystem::path> scenarios_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(SABOT_SOURCE_FOLDER) / folder))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  return files;
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_sound(const std::filesystem::path& path) {
  const Result<Scenario> scenario = parse_toml(contents_of(path), path.string());
  ASSERT_TRUE(scenario.ok()) << scenario.error().message();
  EXPECT_TRUE(scenario->warnings.empty()) << path << ": " << scenario->warnings[0];
  EXPECT_FALSE(scenario->name.empty()) << path << " does not say what it shows";
}

TEST(ShippedScenarios, ThoseInShareAreSound) {
  const auto files = scenarios_in("share/scenarios");
  EXPECT_GE(files.size(), 24u);
  for (const std::filesystem::path& path : files) expect_sound(path);
}

TEST(ShippedScenarios, EveryActionIsShown) {
  std::set<ActionKind> shown;
  for (const std::filesystem::path& path : scenarios_in("share/scenarios")) {
    const Result<Scenario> scenario = parse_toml(contents_of(path), path.string());
    ASSERT_TRUE(scenario.ok()) << scenario.error().message();
    for (const Fault& fault : scenario->faults) shown.insert(fault.action.kind);
  }
  EXPECT_EQ(shown.size(), read::action_rows().size());
}

TEST(ShippedScenarios, ThoseOfTheExamplesAreSound) {
  const auto files = scenarios_in("examples/scenarios");
  EXPECT_GE(files.size(), 1u);
  for (const std::filesystem::path& path : files) expect_sound(path);
}

TEST(ShippedScenarios, TheFirstExampleIsTheFaultThatTheDemoAnnounces) {
  const Result<Scenario> scenario =
      parse_toml(contents_of(std::filesystem::path(SABOT_SOURCE_FOLDER) /
                             "examples/scenarios/allreduce-system-error.toml"),
                 "allreduce-system-error.toml");
  ASSERT_TRUE(scenario.ok()) << scenario.error().message();
  EXPECT_EQ(to_line(*scenario),
            "nic-dies: AllReduce[rank=1,attempt=0,nth=3,budget=1]=error(SystemError)");
}

}  // namespace
}  // namespace sabot::scenario
