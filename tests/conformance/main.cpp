// The conformance program: one suite of tests for every libnccl.
//
// Opens the subject before the tests are instantiated, because how many ranks there are decides
// which tests exist; adds a deadline to every test, the command that replays each failure, and an
// account of everything that was skipped. A skip for any reason other than the permitted ones is a
// failure.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "processes.hpp"
#include "subject.hpp"
#include "world.hpp"

namespace sabot::conformance {
namespace {

constexpr const char* kUsage =
    "usage: conformance --library PATH --memory host|gpu|none [--filter PATTERN]\n"
    "                   [--global] [--list] [--deadline SECONDS]\n"
    "Tests the NCCL library PATH (or NAME, as dlopen finds it).\n"
    "  --memory host   pass pointers to ordinary memory; up to 8 ranks\n"
    "  --memory gpu    pass pointers to GPU memory; one rank per GPU\n"
    "  --memory none   only what works without memory and devices\n"
    "  --global        look functions up as a program linked to the library does, so that a\n"
    "                  preloaded library comes first; without it, in the library itself\n"
    "  --filter        GoogleTest's pattern, for instance 'Split.*' or '*With2Ranks'\n"
    "  --deadline      of one test; when it is reached the program ends (default 120)\n";

// Ends the program when a test outlasts its deadline: a rank that waits for ever cannot be
// cancelled.
class Watchdog {
 public:
  explicit Watchdog(unsigned deadline_s) : deadline_(deadline_s), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // An empty name ends the watch.
  void start(std::string test, std::string replay) {
    const std::lock_guard lock(mutex_);
    test_ = std::move(test);
    replay_ = std::move(replay);
    ++round_;
    changed_.notify_all();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      const unsigned round = round_;
      const bool moved =
          changed_.wait_for(lock, deadline_, [&] { return ended_ || round_ != round; });
      if (moved || test_.empty()) continue;
      std::printf("[  HANGS   ] %s did not end within %lld s\n  replay: %s\n", test_.c_str(),
                  static_cast<long long>(deadline_.count()), replay_.c_str());
      std::fflush(stdout);
      _exit(3);
    }
  }

  const std::chrono::seconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;
  std::string replay_;
  unsigned round_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

class Reporter : public ::testing::EmptyTestEventListener {
 public:
  explicit Reporter(unsigned deadline_s) : watchdog_(deadline_s) {}

  int forbidden_skips() const { return forbidden_skips_; }

  void OnTestStart(const ::testing::TestInfo& test) override {
    watchdog_.start(full_name(test), replay(test));
  }
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (!part.skipped()) return;
    ++skips_;
    for (const std::string& reason : permitted_reasons())
      if (std::strstr(part.message(), reason.c_str()) != nullptr) return;
    ++forbidden_skips_;
    std::printf("this reason to skip is not permitted: %s\n", part.message());
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    watchdog_.start("", "");
    if (test.result()->Failed()) std::printf("  replay: %s\n", replay(test).c_str());
  }
  void OnTestProgramEnd(const ::testing::UnitTest& tests) override {
    if (!permitted_reasons().empty()) std::printf("what this subject lacks:\n");
    for (const std::string& reason : permitted_reasons()) std::printf("  %s\n", reason.c_str());
    std::printf("conformance of NCCL %s with up to %d ranks: %d passed, %d failed, %d skipped\n",
                abi::version_text(subject().version).text, subject().ranks_max(),
                tests.successful_test_count(), tests.failed_test_count() + forbidden_skips_,
                skips_ - forbidden_skips_);
  }

 private:
  static std::string full_name(const ::testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
  }
  static std::string replay(const ::testing::TestInfo& test) {
    const Options& options = subject().options;
    return options.program + options.arguments + " --filter '" + full_name(test) + "'";
  }

  Watchdog watchdog_;
  int skips_ = 0;
  int forbidden_skips_ = 0;
};

struct CommandLine {
  Options options;
  ProcessRank process;
  std::string filter;
  bool list = false;
  std::string error;
};

bool parse_memory(const std::string& word, Where* where) {
  if (word == "host")
    *where = Where::kHost;
  else if (word == "gpu")
    *where = Where::kCuda;
  else if (word == "none")
    *where = Where::kNowhere;
  else
    return false;
  return true;
}

CommandLine parse(int argc, char** argv) {
  CommandLine line;
  line.options.program = argv[0];
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--list" || option == "--global") {
      (option == "--list" ? line.list : line.options.global) = true;
      if (option == "--global") line.options.arguments += " --global";
      continue;
    }
    if (i + 1 >= argc) {
      line.error = option + " needs a value, or is unknown";
      return line;
    }
    const std::string value = argv[++i];
    if (option == "--library")
      line.options.library = value;
    else if (option == "--filter")
      line.filter = value;
    else if (option == "--deadline")
      line.options.deadline_s = static_cast<unsigned>(std::atoi(argv[i]));
    else if (option == "--scenario")
      line.process.scenario = value;
    else if (option == "--rank")
      line.process.rank = std::atoi(argv[i]);
    else if (option == "--ranks")
      line.process.ranks = std::atoi(argv[i]);
    else if (option == "--id-fd")
      line.process.id_fd = std::atoi(argv[i]);
    else if (option != "--memory" || !parse_memory(value, &line.options.where))
      line.error = "cannot understand " + option + " " + value;
    if (option == "--library" || option == "--memory")
      line.options.arguments += " " + option + " " + value;
  }
  if (line.options.library.empty()) line.error = "--library is missing";
  return line;
}

// The name of a suite says where it belongs: WithoutGpu anywhere, OnHost and OnGpu only there.
std::string filter_for(const CommandLine& line) {
  const std::string wanted = line.filter.empty() ? "*" : line.filter;
  if (line.options.where == Where::kNowhere)
    return line.filter.rfind("WithoutGpu", 0) == 0 ? line.filter : "WithoutGpu*";
  const char* elsewhere = line.options.where == Where::kHost ? "OnGpu*" : "OnHost*";
  return wanted + (wanted.find('-') == std::string::npos ? "-" : ":") + elsewhere;
}

int run_tests(const CommandLine& line) {
  std::string filter = "--gtest_filter=" + filter_for(line);
  std::string list = "--gtest_list_tests";
  std::string program = line.options.program;
  char* arguments[] = {program.data(), filter.data(), line.list ? list.data() : nullptr, nullptr};
  int count = line.list ? 3 : 2;
  ::testing::InitGoogleTest(&count, arguments);
  auto* reporter = new Reporter(line.options.deadline_s);  // GoogleTest owns it
  ::testing::UnitTest::GetInstance()->listeners().Append(reporter);
  if (!line.list)
    std::printf("%s: NCCL %s, %d ranks at most\n", line.options.library.c_str(),
                abi::version_text(subject().version).text, subject().ranks_max());
  const int result = RUN_ALL_TESTS();
  drop_worlds();
  return result != 0 || reporter->forbidden_skips() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sabot::conformance

int main(int argc, char** argv) {
  using namespace sabot::conformance;
  const CommandLine line = parse(argc, argv);
  if (!line.error.empty()) {
    std::fprintf(stderr, "conformance: %s\n%s", line.error.c_str(), kUsage);
    return 2;
  }
  auto opened = open_subject(line.options);
  if (!opened.ok()) {
    std::fprintf(stderr, "conformance: %s\n", opened.error().message().c_str());
    return 2;
  }
  set_subject(std::move(opened).value());
  return line.process.scenario.empty() ? run_tests(line) : play(line.process);
}
