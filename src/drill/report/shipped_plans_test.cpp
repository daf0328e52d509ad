// Every drill that is shipped is one that the reader accepts, and stands in docs/drill.md.
//
// Reads files: what users copy must not be what a test never saw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "drill/plan/parse.hpp"

namespace sabot::drill {
namespace {

const std::filesystem::path kSource = SABOT_SOURCE_FOLDER;

std::vector<std::filesystem::path> plans() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "share/drills"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  return files;
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_sound(const std::filesystem::path& path) {
  const Result<Plan> plan = load_plan(path.string());
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->name, path.stem()) << "a drill is called like its file";
  EXPECT_FALSE(plan->needs.empty()) << path << " would fail where PyTorch is missing";
  EXPECT_TRUE(plan->check.exists()) << path << " would take a wrong result for a good one";
  for (const Listed& listed : plan->scenarios) {
    EXPECT_TRUE(listed.scenario.expect || plan->expect) << path << ": " << listed.scenario.name;
    EXPECT_TRUE(listed.scenario.warnings.empty()) << path << ": " << listed.scenario.warnings[0];
    EXPECT_FALSE(listed.scenario.name.empty()) << path;
  }
  for (const Generate& generate : plan->generators) EXPECT_TRUE(generate.expect) << path;
}

TEST(ShippedDrills, AreSound) {
  EXPECT_GE(plans().size(), 8u);
  for (const std::filesystem::path& path : plans()) expect_sound(path);
}

TEST(ShippedDrills, RunTheExampleThatIsThere) {
  for (const std::filesystem::path& path : plans()) {
    const Result<Plan> plan = load_plan(path.string());
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    std::size_t examples = 0;
    for (const std::string& word : plan->command)
      if (word.rfind("examples/", 0) == 0)
        examples += std::filesystem::exists(kSource / word) ? 1U : 0U;
    EXPECT_EQ(examples, 1u) << path;
  }
}

TEST(ShippedDrills, StandInTheDocument) {
  const std::string document = contents_of(kSource / "docs/drill.md");
  for (const std::filesystem::path& path : plans())
    EXPECT_THAT(document, testing::HasSubstr("`" + path.stem().string() + "`"));
}

}  // namespace
}  // namespace sabot::drill
