// The demo: two commands, their output as it comes, and the verdict.
#include "launch/demo/demo.hpp"

#include <unistd.h>

#include <ctime>

#include "base/text.hpp"
#include "launch/captured_command.hpp"
#include "launch/command.hpp"
#include "run/identity.hpp"
#include "run/run_folder.hpp"
#include "run/text_file.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch {
namespace {

constexpr int kRunWaitMs = 120'000;

constexpr const char* kScenario = R"(sabot = 1
name  = "rank 1 gets a system error from its third all-reduce"

[[fault]]
name   = "nic-dies"
when   = { call = "AllReduce", rank = 1, nth = 3 }
do     = { error = "SystemError" }
budget = 1
)";

class Demo {
 public:
  Demo(const DemoOptions& options, const Installation& installation, const char* const* environment,
       const Print& print)
      : options_(options), installation_(installation), environment_(environment), print_(print) {}

  int carry_out() {
    const Status ready = prepare();
    if (!ready.ok()) {
      print_(Tone::kBad, "demo: " + ready.error().message());
      return 2;
    }
    print_(Tone::kPlain,
           std::to_string(options_.shape.ranks) +
               " processes all-reduce through the API of NCCL, on CPU memory: first as "
               "they are, then with a fault.");
    if (!clean_run()) return failed();
    return broken_run() ? 0 : failed();
  }

 private:
  Status prepare() {
    if (::access(installation_.demo_program().c_str(), X_OK) != 0)
      return Error(Code::kNotFound,
                   "the program '" + installation_.demo_program() +
                       "' is missing; run `make` again, or install the whole tree");
    folder_ = options_.folder.empty() ? "runs/demo-" + run::time_and_pid() : options_.folder;
    SABOT_TRY(run::make_folders(folder_));
    SABOT_TRY(run::write_file(folder_ + "/scenario.toml", kScenario));
    scenario_ = SABOT_TRY(scenario::parse_toml(kScenario, folder_ + "/scenario.toml"));
    return {};
  }

  int failed() const {
    print_(Tone::kBad, "demo: this is not what has to happen; the runs are kept in " + folder_);
    return 1;
  }

  bool complain(const std::vector<std::string>& complaints) const {
    for (const std::string& complaint : complaints) print_(Tone::kBad, "demo: " + complaint);
    return complaints.empty();
  }

  std::vector<std::string> command(const std::string& run_folder,
                                   const std::vector<std::string>& options) const {
    std::vector<std::string> words{
        installation_.root + "/bin/sabot", "run", "--engine", "host", "--run-folder", run_folder};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : {std::string("--"), installation_.demo_program(),
                                    std::string("--ranks"), std::to_string(options_.shape.ranks),
                                    std::string("--calls"), std::to_string(options_.shape.calls)})
      words.push_back(word);
    return words;
  }

  // Paths below the working folder as a person would type them.
  static std::string relative(const std::string& path) {
    const std::string here = working_folder() + "/";
    return path.starts_with(here) ? path.substr(here.size()) : path;
  }

  // Runs it, shows its output as it comes, and collects what the program said.
  Result<Ending> watch(const std::vector<std::string>& words,
                       std::vector<ProgramLine>& lines) const {
    std::vector<std::string> shown;
    for (const std::string& word : words) shown.push_back(relative(word));
    print_(Tone::kPlain, "  $ " + quoted(shown));
    std::vector<std::string> environment;
    for (const char* const* entry = environment_; entry != nullptr && *entry != nullptr; ++entry)
      if (!std::string_view(*entry).starts_with("SABOT_")) environment.emplace_back(*entry);
    return run_captured(words, environment, kRunWaitMs, [&](std::string_view line) {
      print_(Tone::kQuiet, "  | " + std::string(line));
      if (const auto parsed = parse_program_line(line)) lines.push_back(*parsed);
    });
  }

  bool clean_run() const {
    print_(Tone::kHeading, "1. The program as it is");
    std::vector<ProgramLine> lines;
    const Result<Ending> ending = watch(command(folder_ + "/clean", {}), lines);
    if (!ending.ok()) return complain({ending.error().message()});
    std::vector<std::string> complaints = judge_clean(lines, options_.shape);
    if (ending->shell_status() != 0)
      complaints.push_back("the program ended with status " +
                           std::to_string(ending->shell_status()));
    if (!complain(complaints)) return false;
    print_(Tone::kGood, "  Checked on every rank: the sums of " +
                            std::to_string(options_.shape.calls) + " calls on " +
                            std::to_string(options_.shape.ranks) + " ranks are right.");
    return true;
  }

  bool broken_run() const {
    print_(Tone::kHeading, "2. The same program with a scenario");
    for (const std::string_view line : split(trim(kScenario), '\n'))
      print_(Tone::kQuiet, "  " + std::string(line));
    std::vector<ProgramLine> lines;
    const std::vector<std::string> words =
        command(folder_ + "/broken", {"--scenario", folder_ + "/scenario.toml"});
    const Result<Ending> ending = watch(words, lines);
    if (!ending.ok()) return complain({ending.error().message()});
    const run::JournalContent journal = run::read_journals(folder_ + "/broken");
    BrokenVerdict verdict = judge_broken(lines, options_.shape, scenario_, journal.lines);
    if (ending->shell_status() != 1)
      verdict.complaints.push_back("a program that saw an error has to end with status 1, not " +
                                   std::to_string(ending->shell_status()));
    show(verdict, journal);
    if (!complain(verdict.complaints)) return false;
    print_(Tone::kGood, "demo: " + verdict.summary());
    return true;
  }

  void show(const BrokenVerdict& verdict, const run::JournalContent& journal) const {
    const auto show_line = [this](const ProgramLine& line) {
      print_(Tone::kPlain, "    rank " + std::to_string(line.rank) + ", " + line.function +
                               ", call " + std::to_string(line.call) + ": " +
                               (line.ok ? "ok, sum " + line.sum : line.error + ": " + line.text));
    };
    print_(Tone::kPlain, "  The rank that was hit saw:");
    for (const ProgramLine& line : verdict.hit) show_line(line);
    print_(Tone::kPlain, "  Every other rank saw:");
    for (const ProgramLine& line : verdict.others) show_line(line);
    print_(Tone::kPlain, "  The journal of the run, written before the fault acted:");
    for (const run::JournalLine& line : journal.lines) print_(Tone::kPlain, "    " + line.text);
  }

  const DemoOptions& options_;
  const Installation& installation_;
  const char* const* environment_;
  const Print& print_;
  std::string folder_;
  scenario::Scenario scenario_;
};

}  // namespace

int demo(const DemoOptions& options, const Installation& installation,
         const char* const* environment, const Print& print) {
  return Demo(options, installation, environment, print).carry_out();
}

}  // namespace sabot::launch
