// Placeholders, environments, and the bar that a person watches.
#include "drill/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drill/progress.hpp"

namespace sabot::drill {
namespace {

using testing::ElementsAre;

const Places kPlaces{CaseFolder("/d/cases/001"), CaseFolder("/d/baseline")};

TEST(Placeholders, AreFilledInWhereverTheyStand) {
  EXPECT_EQ(filled_in("--folder={work}/x", kPlaces), "--folder=/d/cases/001/work/x");
  EXPECT_EQ(filled_in("{output}:{run}", kPlaces), "/d/cases/001/output.log:/d/cases/001/run");
  EXPECT_EQ(filled_in("{baseline} {baseline_output}", kPlaces),
            "/d/baseline/work /d/baseline/output.log");
  EXPECT_EQ(filled_in("{other} {", kPlaces), "{other} {");
}

TEST(Placeholders, CommandThatNamesTheBaselineComparesByItself) {
  EXPECT_TRUE(names_baseline({"cmp", "{work}/a", "{baseline}/a"}));
  EXPECT_FALSE(names_baseline({"cat", "{work}/a"}));
}

TEST(EnvironmentForRuns, LeavesOutWhatBelongsToAnotherRun) {
  const char* const environment[] = {"PATH=/bin",         "SABOT_RUN_FOLDER=/x", "SABOT_FAULT=y",
                                     "SABOT_ENGINE=host", "SABOT_SCENARIO=z",    nullptr};
  EXPECT_THAT(environment_for_runs(environment), ElementsAre("PATH=/bin", "SABOT_ENGINE=host"));
}

TEST(ShellText, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(shell_text({"a", "b c", "it's", ""}), "a 'b c' 'it'\\''s' ''");
}

TEST(Bar, ShowsWhatIsDoneAndWhatIsRunningWithinTheColumns) {
  EXPECT_EQ(bar_text(3, 6, 1, {"a", "b"}, 80),
            "[##########          ] 3/6, 1 not as expected, running: a, b");
  EXPECT_EQ(bar_text(0, 6, 0, {"a name that is too long"}, 40),
            "[                    ] 0/6, running: ...");
}

TEST(Progress, WithoutATerminalIsALineForEachCase) {
  std::string written;
  Progress progress({.write = [&written](std::string_view text) { written += text; }});
  progress.begin(2);
  Case good;
  good.name = "one";
  good.outcome = Outcome::kRecovers;
  good.holds = true;
  good.started_ns = 1;
  good.finished_ns = 1'500'000'001;
  Case bad = good;
  bad.name = "two\nlines";
  bad.outcome = Outcome::kHangs;
  bad.holds = false;
  bad.reasons = {"it hangs"};
  progress.draw({"one", "two"});
  progress.finished(good);
  progress.finished(bad);
  progress.end();
  EXPECT_EQ(written,
            "[1/2] as expected      one: recovers, 1.5s\n"
            "[2/2] NOT AS EXPECTED  two lines: hangs, 1.5s\n"
            "        it hangs\n");
}

TEST(Progress, OnATerminalDrawsTheBarAnewBelowTheLines) {
  std::string written;
  Progress progress({.is_terminal = true,
                     .columns = 60,
                     .write = [&written](std::string_view text) { written += text; }});
  progress.begin(1);
  progress.draw({"one"});
  progress.say("a line");
  progress.end();
  EXPECT_EQ(written, "\r\033[K[                    ] 0/1, running: one\r\033[Ka line\n");
}

}  // namespace
}  // namespace sabot::drill
