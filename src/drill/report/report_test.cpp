// What the outputs decide: what is harmless text, what fits a line, where a mark stands. The whole
// of each format is pinned by the golden files of outputs_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "drill/report/html.hpp"
#include "drill/report/json.hpp"
#include "drill/report/junit.hpp"
#include "drill/report/summary.hpp"
#include "drill/report/table.hpp"
#include "drill/report/text.hpp"
#include "drill/report/timeline.hpp"

namespace sabot::drill::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kStart = 1'780'000'000 * kSecond;

Case a_case(const char* name, bool holds) {
  Case one;
  one.name = name;
  one.outcome = holds ? Outcome::kRecovers : Outcome::kHangs;
  one.expected = "recovers";
  one.holds = holds;
  one.attempts = 1;
  one.started_ns = kStart;
  one.finished_ns = kStart + 10 * kSecond;
  if (!holds) one.reasons = {"it hangs"};
  return one;
}

DrillReport a_report(std::vector<Case> cases) {
  DrillReport report;
  report.name = "plan";
  report.cases = std::move(cases);
  return report;
}

TEST(PrintableText, LosesColoursTitlesAndLinksOfATerminal) {
  EXPECT_EQ(printable("\033[1;31mred\033[0m \033]0;title\a\033]8;;x\033\\link"), "red link");
}

TEST(PrintableText, ShowsOtherControlCharactersAndSequencesThatAreCutOff) {
  EXPECT_EQ(printable("bell \a esc \033 cut \033[31"), "bell \\x07 esc \\x1b cut \\x1b[31");
  EXPECT_EQ(printable("delete \x7f, C1 \xC2\x9B"), "delete \\x7f, C1 \\x9b");
}

TEST(PrintableText, KeepsLineEndsOnlyWhereTheyAreWanted) {
  EXPECT_EQ(printable("a\tb\nc\r\nd\re"), "a b c d e");
  EXPECT_EQ(printable("a\tb\nc\r\nd\re", Lines::kMany), "a\tb\nc\nd\ne");
}

TEST(PrintableText, ReplacesWhatIsNoTextAndShowsWhatReordersIt) {
  EXPECT_EQ(printable("\xff\xC3"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xEF\xBF\xBF"), "\xEF\xBF\xBD");
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u202eb");
}

TEST(EscapedText, ReplacesTheFiveCharactersOfMarkup) {
  EXPECT_EQ(escaped("</a b='1' c=\"2\">&amp;"),
            "&lt;/a b=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
}

TEST(Columns, CountPointsWideOnesTwiceAndCombiningOnesNot) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("\xC3\xA9\xCC\x81"), 1u);
  EXPECT_EQ(columns_of("\xE4\xBD\xA0\xE5\xA5\xBD"), 4u);
}

TEST(WrappedText, BreaksAtBlanksAndLongWordsAnywhere) {
  EXPECT_THAT(wrapped("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("abcdefgh i", 3), ElementsAre("abc", "def", "gh", "i"));
  EXPECT_THAT(wrapped("", 3), ElementsAre(""));
  EXPECT_THAT(wrapped("\xE4\xBD\xA0\xE5\xA5\xBD", 3), ElementsAre("\xE4\xBD\xA0", "\xE5\xA5\xBD"));
}

TEST(Durations, HaveNoExponentHoweverLongTheyAre) {
  EXPECT_EQ(duration_text(1'500'000), "1.5ms");
  EXPECT_EQ(duration_text(93 * kSecond), "93s");
  EXPECT_EQ(duration_text(999'600'000'000), "1000s");
  EXPECT_EQ(duration_text(12'345 * kSecond), "12345s");
  EXPECT_EQ(seconds_text(12'345'678'900), "12.346");
  EXPECT_EQ(seconds_text(1'999'999'999), "2.000");
}

TEST(TheTable, HasOneRowForEachCaseAndTheReasonOfAFailure) {
  const std::string table = table_of(a_report({a_case("fine", true), a_case("stuck", false)}));
  EXPECT_THAT(table, HasSubstr(" ok   fine  "));
  EXPECT_THAT(table, HasSubstr(" FAIL stuck  "));
  EXPECT_THAT(table, HasSubstr("\n      it hangs\n"));
  EXPECT_THAT(table, HasSubstr("\ndrill: 1 of 2 cases is not as expected (seed 0)\n"));
}

TEST(TheTable, KeepsItsWidthWhateverTheTexts) {
  for (const std::size_t columns : {80u, 120u}) {
    Case hostile = a_case("n", false);
    for (int i = 0; i < 40; ++i) hostile.name += "ame \xE4\xBD\xA0";
    hostile.faults_line = std::string(300, 'f');
    hostile.reasons = {std::string(500, 'r') + "\n" + std::string(90, ' ') + "end"};
    hostile.leaked = {"\033[2Jcleared"};
    const std::string table = table_of(a_report({hostile}), {false, columns});
    for (const std::string_view line : split(table, '\n')) EXPECT_LE(columns_of(line), columns);
    EXPECT_THAT(table, HasSubstr("left behind: cleared"));
  }
}

TEST(TheTable, IsColouredOnlyIfAskedAndThenHasTheSameWords) {
  const DrillReport report = a_report({a_case("fine", true), a_case("stuck", false)});
  const std::string plain = table_of(report);
  const std::string coloured = table_of(report, {true, 80});
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_THAT(coloured, HasSubstr("\033[31;1mFAIL\033[0m"));
  EXPECT_EQ(printable(coloured, Lines::kMany), plain);
}

TEST(TheVerdict, IsThatOfAllCasesAndOfTheBaseline) {
  DrillReport report = a_report({a_case("fine", true)});
  EXPECT_EQ(verdict_sentence(report), "the one case is as expected");
  report.baseline = a_case("baseline", false);
  EXPECT_EQ(verdict_sentence(report), "1 of 2 cases is not as expected");
  EXPECT_FALSE(report.holds());
}

TEST(TheVerdict, DoesNotCountWhatWasSkipped) {
  Case skipped = a_case("gpu", false);
  skipped.outcome = Outcome::kSkipped;
  EXPECT_EQ(verdict_sentence(a_report({skipped})), "no case was run, 1 skipped");
  EXPECT_EQ(verdict_sentence(a_report({a_case("fine", true), skipped})),
            "the one case is as expected, 1 skipped");
}

TEST(Complaints, AreNotMadeTwice) {
  Case one = a_case("wrong", false);
  one.reasons = {"the check does not agree: other weights"};
  one.check = {true, false, "other weights"};
  one.leaked = {"/dev/shm/x"};
  EXPECT_THAT(complaints_of(one), ElementsAre(one.reasons[0], "left behind: /dev/shm/x"));
}

TEST(TheCommand, IsQuotedForAShell) {
  EXPECT_EQ(command_text({"python3", "a b.py", "", "it's", "--x=1"}),
            "python3 'a b.py' '' 'it'\\''s' --x=1");
}

TEST(JUnit, GivesEqualNamesANumberSinceReadersKeepTheFirst) {
  const std::string xml = junit_of(a_report({a_case("same", true), a_case("same", true)}));
  EXPECT_THAT(xml, HasSubstr(" name=\"same\" "));
  EXPECT_THAT(xml, HasSubstr(" name=\"same (2)\" "));
}

TEST(JUnit, TellsACaseThatCannotBeJudgedFromOneThatFailed) {
  Case unrecorded = a_case("lost", false);
  unrecorded.outcome = Outcome::kNotRecorded;
  const std::string xml = junit_of(a_report({unrecorded, a_case("stuck", false)}));
  EXPECT_THAT(xml, HasSubstr("tests=\"2\" failures=\"1\" errors=\"1\""));
  EXPECT_THAT(xml, HasSubstr("<error message=\"it hangs\" type=\"not-recorded\">it hangs\n"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"it hangs\" type=\"hangs\">it hangs\n"));
}

TEST(Json, SaysNullForWhatNeverHappened) {
  Case one = a_case("fine", true);
  one.recovery_ns = 0;
  one.ranks = {{0, 0, "", "", "", 0, 0}};
  one.events = {{EventKind::kDeadline, kStart, -1, 0, ""}};
  const std::string json = json_of(a_report({one}));
  EXPECT_THAT(json, HasSubstr("\"fault_ns\": null"));
  EXPECT_THAT(json, HasSubstr("\"detection_ns\": null"));
  EXPECT_THAT(json, HasSubstr("\"recovery_ns\": 0,"));
  EXPECT_THAT(json, HasSubstr("\"detected_ns\": null"));
  EXPECT_THAT(json, HasSubstr("\"rank\": null"));
  EXPECT_THAT(json, HasSubstr("\"baseline\": null"));
}

TEST(TheTimeline, PlacesMarksInPercentOfTheRun) {
  Case one = a_case("fine", true);
  one.events = {{EventKind::kFault, kStart + 5 * kSecond, 1, 0, "boom"}};
  const Timeline timeline = timeline_of(one);
  ASSERT_EQ(timeline.lanes.size(), 1u);
  EXPECT_EQ(timeline.lanes[0].rank, 1);
  ASSERT_EQ(timeline.lanes[0].marks.size(), 1u);
  EXPECT_DOUBLE_EQ(timeline.lanes[0].marks[0].percent, 50);
  EXPECT_EQ(timeline.lanes[0].marks[0].text, "+5s fault: boom");
}

TEST(TheTimeline, JoinsMarksOfOneKindAndMovesOthersApartInTheirOrder) {
  Case one = a_case("fine", true);
  one.events = {{EventKind::kFault, kStart + 5 * kSecond, 0, 0, "a"},
                {EventKind::kFault, kStart + 5 * kSecond + 1, 0, 0, "b"},
                {EventKind::kDetection, kStart + 5 * kSecond + 2, 0, 0, ""},
                {EventKind::kEnded, kStart + 10 * kSecond, 0, 0, ""},
                {EventKind::kDeadline, kStart + 10 * kSecond, 0, 0, ""}};
  const std::vector<Mark> marks = timeline_of(one).lanes.at(0).marks;
  ASSERT_EQ(marks.size(), 4u);
  EXPECT_EQ(marks[0].count, 2u);
  EXPECT_EQ(marks[0].text, "+5s fault: a\n+5s fault: b");
  EXPECT_DOUBLE_EQ(marks[1].percent, 50 + kMarkGapPercent);
  EXPECT_DOUBLE_EQ(marks[2].percent, 100 - kMarkGapPercent);
  EXPECT_DOUBLE_EQ(marks[3].percent, 100);
}

TEST(TheTimeline, KeepsAThousandMarksWithinTheLane) {
  Case one = a_case("fine", true);
  for (unsigned i = 0; i < 1000; ++i)
    one.events.push_back({i % 2 == 0 ? EventKind::kDetection : EventKind::kAbort,
                          kStart + i * kSecond / 100, 0, 0, ""});
  const std::vector<Mark> marks = timeline_of(one).lanes.at(0).marks;
  for (const Mark& mark : marks) {
    EXPECT_GE(mark.percent, 0);
    EXPECT_LE(mark.percent, 100);
  }
}

TEST(TheTimeline, DrawsEachAttemptFromItsBeginningToTheEndOfItsProcess) {
  Case one = a_case("fine", true);
  one.events = {{EventKind::kEnded, kStart + 2 * kSecond, 0, 0, ""},
                {EventKind::kRestart, kStart + 4 * kSecond, 0, 1, ""}};
  const std::vector<Bar> bars = timeline_of(one).lanes.at(0).bars;
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_DOUBLE_EQ(bars[0].from_percent, 0);
  EXPECT_DOUBLE_EQ(bars[0].to_percent, 20);
  EXPECT_DOUBLE_EQ(bars[1].from_percent, 40);
  EXPECT_DOUBLE_EQ(bars[1].to_percent, 100);
  EXPECT_EQ(bars[1].attempt, 1);
}

TEST(TheTimeline, HasRoundTicksAndTheDurationAtItsEnd) {
  Case one = a_case("fine", true);
  std::vector<std::string> labels;
  const std::vector<Tick> ticks = timeline_of(one).ticks;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  EXPECT_THAT(labels, ElementsAre("0", "2s", "4s", "6s", "10s"));
  one.finished_ns = kStart;
  EXPECT_TRUE(timeline_of(one).lanes.empty()) << "a case that took no time has none";
}

TEST(ThePage, OpensWhatFailedAndFoldsTheRest) {
  Case fine = a_case("fine", true);
  fine.requirements = {{"outcome", "recovers", "recovers", true, ""}};
  Case stuck = a_case("stuck", false);
  stuck.requirements = {{"outcome", "recovers", "hangs", false, "it hangs"}};
  EXPECT_THAT(html_of(a_report({fine})), Not(HasSubstr("<details open")));
  EXPECT_THAT(html_of(a_report({stuck})), HasSubstr("<details open=\"open\">"));
}

}  // namespace
}  // namespace sabot::drill::report
