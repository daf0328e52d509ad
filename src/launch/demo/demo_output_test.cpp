// The demo's verdict: it holds only if every rank's own words and the journal agree.
#include "launch/demo/demo_output.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "launch/captured_command.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch {
namespace {

std::vector<ProgramLine> lines_of(std::string_view text) {
  std::vector<ProgramLine> lines;
  for (const std::string_view line : split(text, '\n'))
    if (const auto parsed = parse_program_line(line)) lines.push_back(*parsed);
  return lines;
}

constexpr const char* kClean = R"(rank 0 call 1 AllReduce ok sum=3
rank 1 call 1 AllReduce ok sum=3
rank 1 call 2 AllReduce ok sum=5
rank 0 call 2 AllReduce ok sum=5
)";

constexpr const char* kBroken = R"([sabot] engine host (asked for by --engine)
rank 0 call 1 AllReduce ok sum=3
rank 1 call 1 AllReduce ok sum=3
rank 1 call 2 AllReduce error ncclSystemError (2): injected by Sabot: fault "nic-dies" (rank 1)
rank 0 call 2 AllReduce error ncclRemoteError (6): rank 1 left the communicator
)";

scenario::Scenario one_fault() {
  return std::move(
             scenario::parse_line("nic-dies: AllReduce[rank=1,nth=2]=error(SystemError)", "test"))
      .value();
}

std::vector<run::JournalLine> one_firing() {
  run::JournalLine line;
  line.fault = "nic-dies";
  line.code = "ncclSystemError";
  line.function = "AllReduce";
  line.rank = 1;
  line.nth = 2;
  return {line};
}

TEST(ProgramLines, AreReadAndEverythingElseIsLeft) {
  const auto ok = parse_program_line("rank 3 call 12 AllReduce ok sum=54");
  ASSERT_TRUE(ok);
  EXPECT_EQ(ok->rank, 3);
  EXPECT_EQ(ok->call, 12u);
  EXPECT_EQ(ok->sum, "54");
  const auto error =
      parse_program_line("rank 1 call 3 AllReduce error ncclSystemError (2): a (b): c");
  ASSERT_TRUE(error);
  EXPECT_FALSE(error->ok);
  EXPECT_EQ(error->error, "ncclSystemError");
  EXPECT_EQ(error->text, "a (b): c");
  for (const char* const other :
       {"", "rank", "rank x call 1 AllReduce ok sum=1", "rank 1 call 1 AllReduce ok",
        "rank 1 call 1 AllReduce wrong element 3", "[sabot] armed: 1 fault",
        "rank 1 call 1 X error"})
    EXPECT_FALSE(parse_program_line(other)) << other;
}

TEST(CleanRun, IsFineIfEveryRankShowsEverySumOnce) {
  EXPECT_EQ(judge_clean(lines_of(kClean), {2, 2}), std::vector<std::string>{});
}

TEST(CleanRun, C15AWrongSumOnARankOtherThan0IsSeen) {
  const std::string text = std::string(kClean).replace(std::string(kClean).find("rank 1 call 2"),
                                                       32, "rank 1 call 2 AllReduce ok sum=4");
  EXPECT_EQ(judge_clean(lines_of(text), {2, 2}),
            std::vector<std::string>{"rank 1 call 2 shows the sum 4, not 5"});
}

TEST(CleanRun, AMissingADoubleAndAFailedCallAreNamed) {
  EXPECT_EQ(judge_clean(lines_of("rank 0 call 1 AllReduce ok sum=1"), {1, 2}),
            std::vector<std::string>{"rank 0 call 2 was reported 0 times, not once"});
  EXPECT_EQ(
      judge_clean(lines_of("rank 0 call 1 AllReduce ok sum=1\nrank 0 call 1 AllReduce ok sum=1"),
                  {1, 1}),
      std::vector<std::string>{"rank 0 call 1 was reported 2 times, not once"});
  EXPECT_EQ(judge_clean(lines_of("rank 0 call 1 AllReduce error ncclRemoteError (6): x"), {1, 1}),
            std::vector<std::string>{"rank 0 call 1 reports ncclRemoteError"});
}

TEST(CleanRun, AProgramThatSaidNothingIsOneComplaint) {
  EXPECT_EQ(judge_clean({}, {2, 2}), std::vector<std::string>{"no rank reported anything"});
}

TEST(BrokenRun, HoldsIfTheApplicationSawWhatTheJournalProves) {
  const BrokenVerdict verdict = judge_broken(lines_of(kBroken), {2, 5}, one_fault(), one_firing());
  EXPECT_EQ(verdict.complaints, std::vector<std::string>{});
  EXPECT_EQ(verdict.summary(),
            "planned 1, fired 1, seen by the application 1 (ncclSystemError, rank 1, AllReduce, "
            "call 2)");
  ASSERT_EQ(verdict.others.size(), 1u);
  EXPECT_EQ(verdict.others[0].error, "ncclRemoteError");
}

TEST(BrokenRun, WithoutAJournalLineItIsNoProof) {
  const BrokenVerdict verdict = judge_broken(lines_of(kBroken), {2, 5}, one_fault(), {});
  EXPECT_EQ(verdict.complaints.at(0), "the journal has no line of fault \"nic-dies\"");
  EXPECT_EQ(verdict.summary(), "planned 1, fired 0, seen by the application 0");
}

TEST(BrokenRun, AFiringThatTheApplicationDidNotReportIsNamed) {
  std::vector<run::JournalLine> firings = one_firing();
  firings[0].nth = 3;
  const BrokenVerdict verdict = judge_broken(lines_of(kBroken), {2, 5}, one_fault(), firings);
  EXPECT_EQ(verdict.seen, 0u);
  EXPECT_EQ(verdict.complaints.at(0),
            "rank 1 did not report the ncclSystemError that the journal proves");
}

TEST(BrokenRun, ASurvivorThatReportsSuccessOrNothingIsNamed) {
  std::string text = kBroken;
  const std::size_t last = text.find("rank 0 call 2");
  text.erase(last);
  EXPECT_EQ(judge_broken(lines_of(text), {2, 5}, one_fault(), one_firing()).complaints,
            std::vector<std::string>{"rank 0 call 1 is the last of its rank and reports success"});
  EXPECT_EQ(judge_broken(lines_of(kBroken), {3, 5}, one_fault(), one_firing()).complaints.back(),
            "rank 2 reported nothing");
}

TEST(CapturedCommand, HandsOverBothOutputsLineByLine) {
  std::vector<std::string> lines;
  const Result<Ending> ending =
      run_captured({"/bin/sh", "-c", "echo a; echo b >&2; printf c; exit 4"}, {}, 60'000,
                   [&lines](std::string_view line) { lines.emplace_back(line); });
  ASSERT_TRUE(ending.ok());
  EXPECT_EQ(ending->shell_status(), 4);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(CapturedCommand, EndsAtItsTimeLimit) {
  const Result<Ending> ending = run_captured({"/bin/sh", "-c", "exec sleep 100"},
                                             {"PATH=/bin:/usr/bin"}, 1000, [](std::string_view) {});
  ASSERT_FALSE(ending.ok());
  EXPECT_EQ(ending.error().message(), "'/bin/sh' did not end within 1 s");
}

}  // namespace
}  // namespace sabot::launch
