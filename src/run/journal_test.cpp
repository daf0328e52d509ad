// Journal, budgets and tallies: proof on disk that holds across threads, processes, forks and
// SIGKILL.
#include "run/journal.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "base/random.hpp"
#include "run/identity.hpp"
#include "run/read/journal_reader.hpp"
#include "run/read/json_value.hpp"
#include "run/read/tally_reader.hpp"
#include "run/recorder.hpp"
#include "run/scratch_folder_test.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

JournalEntry nic_dies() {
  JournalEntry entry;
  entry.scenario = "a \"quoted\" name";
  entry.fault = "nic-dies";
  entry.action = "error(SystemError)";
  entry.code = "ncclSystemError";
  entry.function = "AllReduce";
  entry.comm = "c0";
  entry.rank = 1;
  entry.world_rank = 1;
  entry.nth = 3;
  entry.nth_collective = 3;
  entry.has_count = true;
  entry.count = 256;
  entry.bytes = 1024;
  entry.match = 1;
  entry.budget_claim = 1;
  entry.budget_limit = 1;
  return entry;
}

struct Slot {
  std::uint64_t matched;
  std::uint64_t closest[4];
};

class Records : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    options_.run_folder = path_;
    options_.faults = {{"nic-dies", 3}, {"slow", 0}};
    options_.plan_hash = 77;
    options_.slot_bytes = sizeof(Slot);
  }
  // Runs action in a forked child that ends without running destructors; returns its wait status.
  template <typename Action>
  static int in_child(Action action) {
    const pid_t child = ::fork();
    if (child == 0) {
      action();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }
  std::size_t claims() const { return Budget::count_claims(path_, "nic-dies"); }
  RecorderOptions options_;
};

TEST(JournalLine, CarriesTheCallAndLeavesOutWhatItHasNot) {
  JournalEntry entry = nic_dies();
  const Result<JsonValue> json = JsonValue::parse(to_json_line(entry));
  ASSERT_TRUE(json.ok()) << json.error().message();
  EXPECT_EQ((*json)["scenario"].text(), "a \"quoted\" name");
  EXPECT_EQ((*json)["fault"].text(), "nic-dies");
  EXPECT_EQ((*json)["function"].text(), "AllReduce");
  EXPECT_EQ((*json)["rank"].integer(-1), 1);
  EXPECT_EQ((*json)["nth"].natural(), 3u);
  EXPECT_EQ((*json)["bytes"].natural(), 1024u);
  EXPECT_EQ((*json)["pid"].integer(), ::getpid());
  EXPECT_GT((*json)["time_ns"].natural(), 1'600'000'000'000'000'000u);
  EXPECT_EQ((*json)["root"].kind(), JsonValue::Kind::kNull);
  EXPECT_EQ((*json)["group"].kind(), JsonValue::Kind::kNull);
  entry.has_count = false;
  EXPECT_EQ((*JsonValue::parse(to_json_line(entry)))["bytes"].kind(), JsonValue::Kind::kNull);
}

TEST_F(Records, AProcessThatNeverFiredLeavesNoJournal) {
  Recorder recorder(options_);
  EXPECT_TRUE(recorder.problems().empty());
  EXPECT_TRUE(std::filesystem::is_empty(path_ + "/journal"));
  EXPECT_TRUE(read_journals(path_).lines.empty());
}

TEST_F(Records, LinesOfManyThreadsDoNotMix) {
  Recorder recorder(options_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&recorder] {
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(recorder.journal().append(nic_dies()).ok());
    });
  for (std::thread& thread : threads) thread.join();
  const JournalContent content = read_journals(path_);
  EXPECT_EQ(content.lines.size(), 400u);
  EXPECT_TRUE(content.problems.empty());
  EXPECT_EQ(content.lines[0].code, "ncclSystemError");
  EXPECT_EQ(content.lines[0].rank, 1);
}

TEST_F(Records, AProcessKilledRightAfterTheLineHasLeftIt) {
  const int status = in_child([this] {
    Recorder recorder(options_);
    recorder.counters().calls_seen.fetch_add(5);
    recorder.journal().append(nic_dies()).ignore();
    ::raise(SIGKILL);
  });
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(read_journals(path_).lines.size(), 1u);
  std::vector<std::string> problems;
  const std::vector<TallyRecord> tallies = read_tallies(path_, problems);
  ASSERT_EQ(tallies.size(), 1u);
  EXPECT_EQ(tallies[0].calls_seen, 5u);
  EXPECT_EQ(tallies[0].plan_hash, 77u);
  EXPECT_EQ(tallies[0].fault_count, 2u);
}

TEST_F(Records, ABrokenLineIsNamedAndTheRestIsRead) {
  Recorder recorder(options_);
  recorder.journal().append(nic_dies()).ignore();
  std::ofstream(path_ + "/journal/other.1.jsonl") << "{\"fault\": \"cut sho\n";
  const JournalContent content = read_journals(path_);
  EXPECT_EQ(content.lines.size(), 1u);
  ASSERT_EQ(content.problems.size(), 1u);
  EXPECT_EQ(content.problems[0], path_ +
                                     "/journal/other.1.jsonl:1: not JSON: a string without an end "
                                     "at offset 18");
}

TEST_F(Records, WithoutARunFolderLinesGoToTheCallerAndBudgetsHoldPerProcess) {
  std::vector<std::string> lines;
  options_.run_folder = "";
  options_.sink = [](std::string_view line, void* context) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(line);
  };
  options_.sink_context = &lines;
  Recorder recorder(options_);
  EXPECT_TRUE(recorder.journal().append(nic_dies()).ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("\"fault\":\"nic-dies\""), std::string::npos);
  for (std::uint64_t number = 1; number <= 3; ++number)
    EXPECT_EQ(recorder.claim(0)->number, number);
  EXPECT_FALSE(recorder.claim(0)->allowed);
  recorder.counters().calls_seen.fetch_add(1);
  EXPECT_EQ(recorder.counters().calls_seen.load(), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(Records, AFaultWithoutABudgetMayAlwaysFire) {
  Recorder recorder(options_);
  for (int n = 0; n < 100; ++n) EXPECT_TRUE(recorder.claim(1)->allowed);
  EXPECT_EQ(recorder.claim(1)->number, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(path_ + "/budget"));
}

TEST_F(Records, ABudgetHoldsAcrossThreadsAndProcesses) {
  for (int process = 0; process < 4; ++process) {
    const int status = in_child([this] {
      Recorder recorder(options_);
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&recorder] {
          const auto claim = recorder.claim(0);
          if (claim.ok() && claim->allowed) recorder.journal().append(nic_dies()).ignore();
        });
      for (std::thread& thread : threads) thread.join();
    });
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_journals(path_).lines.size(), 3u);
  EXPECT_EQ(claims(), 3u);
}

TEST_F(Records, ARestartedProcessFindsTheBudgetAsItWasLeft) {
  in_child([this] { Recorder(options_).claim(0).ignore(); });
  Recorder restarted(options_);
  EXPECT_EQ(restarted.claim(0)->number, 2u);
  EXPECT_EQ(restarted.claim(0)->number, 3u);
  EXPECT_FALSE(restarted.claim(0)->allowed);
}

TEST_F(Records, TheFirstFreeNumberOfALargeBudgetIsFoundQuickly) {
  options_.faults = {{"nic-dies", 1'000'000}};
  Recorder recorder(options_);
  for (int n = 1; n <= 1000; ++n) std::ofstream(path_ + "/budget/nic-dies." + std::to_string(n));
  EXPECT_EQ(recorder.claim(0)->number, 1001u);
  EXPECT_EQ(claims(), 1001u);
}

// C17: fork after NCCL was initialised.
TEST_F(Records, AForkedChildWritesNothingOfItsParentAndConsumesNoBudget) {
  Recorder recorder(options_);
  ASSERT_TRUE(recorder.journal().append(nic_dies()).ok());
  recorder.counters().calls_seen.store(10);
  const int status = in_child([&recorder] {
    recorder.after_fork_child();
    recorder.counters().calls_seen.fetch_add(100);
    const bool wrote = recorder.journal().append(nic_dies()).ok();
    const auto claim = recorder.claim(0);
    const auto unlimited = recorder.claim(1);
    const bool attached = recorder.write_attach({}).ok();
    if (wrote || !claim.ok() || claim->allowed || unlimited->allowed || !attached) ::_exit(1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(recorder.counters().calls_seen.load(), 10u);
  EXPECT_EQ(read_journals(path_).lines.size(), 1u);
  EXPECT_EQ(claims(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(path_ + "/attach"));
  EXPECT_TRUE(recorder.claim(0)->allowed) << "the parent goes on";
}

// C17, for a fork that no handler has seen.
TEST_F(Records, AForkedChildIsRecognisedByItsProcessIdAlone) {
  Recorder recorder(options_);
  const int status = in_child([&recorder] {
    const bool wrote = recorder.journal().append(nic_dies()).ok();
    const auto claim = recorder.claim(0);
    if (wrote || !claim.ok() || claim->allowed) ::_exit(1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(claims(), 0u);
}

TEST_F(Records, AForkedChildMayOpenARecordOfItsOwn) {
  Recorder recorder(options_);
  ASSERT_TRUE(recorder.journal().append(nic_dies()).ok());
  in_child([this, &recorder] {
    recorder.after_fork_child();
    Recorder own(options_);
    own.journal().append(nic_dies()).ignore();
  });
  EXPECT_EQ(read_journals(path_).lines.size(), 2u);
}

TEST_F(Records, AFullDiskIsAnErrorAndNeitherASignalNorAnExit) {
  const int status = in_child([this] {
    Recorder recorder(options_);
    // The nearest thing to a full disk that needs no mount: a limit on the size of files.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status appended = recorder.journal().append(nic_dies());
    if (appended.ok() || appended.error().code() != Code::kSystem) ::_exit(1);
    Recorder late(options_);
    if (late.problems().size() != 1) ::_exit(2);
    late.counters().calls_seen.fetch_add(1);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Records, AMissingRunFolderDegradesAndRefusesBudgets) {
  options_.run_folder = path_ + "/gone";
  Recorder recorder(options_);
  ASSERT_EQ(recorder.problems().size(), 1u);
  EXPECT_EQ(recorder.problems()[0],
            "run folder '" + path_ + "/gone' does not exist on host " + host_name() +
                "; a run over several hosts needs a folder on a shared file "
                "system, given with --run-folder");
  EXPECT_FALSE(recorder.claim(0).ok());
  EXPECT_TRUE(recorder.claim(1)->allowed);
  recorder.counters().calls_seen.fetch_add(1);
  EXPECT_TRUE(recorder.journal().append(nic_dies()).ok());
}

TEST_F(Records, BudgetsOverSeveralHostsWithoutASharedFolderAreRefused) {
  options_.run_folder = "";
  options_.spans_hosts = true;
  Recorder recorder(options_);
  ASSERT_FALSE(recorder.claim(0).ok());
  EXPECT_EQ(recorder.claim(0).error().message(),
            "the job runs on several hosts and has no run folder, so nothing counts its budgets "
            "together; give a folder on a shared file system with --run-folder");
}

TEST_F(Records, ALocalDiskIsNoFolderForSeveralHosts) {
  EXPECT_EQ(unshared_folder_text(path_, false), "");
  EXPECT_EQ(unshared_folder_text("/proc", true), "")
      << "of an unknown file system the best is hoped";
  ASSERT_TRUE(std::filesystem::exists("/dev/shm"));
  EXPECT_EQ(unshared_folder_text("/dev/shm", true),
            "the job runs on several hosts, but run folder '/dev/shm' lies on a disk of host " +
                host_name() +
                " alone, where the others cannot see which budgets are used up; give a folder on a "
                "shared file system with --run-folder, or leave budget out of the scenario");
}

TEST_F(Records, AProcessIdThatComesBackGetsATallyOfItsOwn) {
  Recorder first(options_);
  Recorder second(options_);
  first.counters().calls_seen.store(1);
  second.counters().calls_seen.store(2);
  second.slots<Slot>()[1].closest[3] = 5;
  std::vector<std::string> problems;
  const std::vector<TallyRecord> tallies = read_tallies(path_, problems);
  ASSERT_EQ(tallies.size(), 2u);
  EXPECT_EQ(tallies[0].calls_seen + tallies[1].calls_seen, 3u);
  Slot slot{};
  ASSERT_TRUE(tallies[1].slot(1, slot));
  EXPECT_EQ(slot.closest[3], 5u);
  std::uint64_t other_type = 0;
  EXPECT_FALSE(tallies[1].slot(1, other_type));
  EXPECT_FALSE(tallies[1].slot(2, slot));
}

TEST_F(Records, FilesThatAreNoTallyAreNamedAndSkipped) {
  Recorder recorder(options_);
  std::ofstream(path_ + "/tally/empty");
  std::ofstream(path_ + "/tally/other") << std::string(4096, 'x');
  std::ofstream(path_ + "/tally/short") << "SABOTTLY";
  std::vector<std::string> problems;
  EXPECT_EQ(read_tallies(path_, problems).size(), 1u);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0], "'" + path_ + "/tally/empty' is no tally of this version");
}

// Whatever stands in a run folder, reading it ends with records or problems, never with a fault.
TEST_F(Records, DamagedFilesOfEveryKindAreReadWithoutHarm) {
  Recorder recorder(options_);
  ASSERT_TRUE(recorder.journal().append(nic_dies()).ok());
  const std::string tally_path = path_ + "/tally/" + recorder.tag();
  std::ifstream tally_file(tally_path, std::ios::binary);
  const std::string tally{std::istreambuf_iterator<char>(tally_file), {}};
  const std::string journal = read_journals(path_).lines.at(0).text;
  ASSERT_GT(tally.size(), sizeof(TallyPage));
  constexpr std::uint64_t kSeed = 20261130;
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = round % 2 == 0 ? tally : journal;
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    bytes.resize(bytes.size() - random.below(2) * random.below(bytes.size()));
    if (round % 2 == 0) {
      std::ofstream(tally_path, std::ios::binary | std::ios::trunc) << bytes;
      std::vector<std::string> problems;
      const std::size_t records = read_tallies(path_, problems).size();
      ASSERT_EQ(records + problems.size(), 1u) << "seed " << kSeed << " round " << round;
    } else {
      const Result<JsonValue> value = JsonValue::parse(bytes);
      if (!value.ok()) {
        ASSERT_TRUE(value.error().message().starts_with("not JSON: ")) << "seed " << kSeed;
      }
    }
  }
}

}  // namespace
}  // namespace sabot::run
