// `sabot drill`: options into drill::carry_out, its report into the table and the files asked for.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/log.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "drill/drill.hpp"
#include "drill/plan/plan.hpp"
#include "drill/report/html.hpp"
#include "drill/report/json.hpp"
#include "drill/report/junit.hpp"
#include "drill/report/table.hpp"
#include "launch/command.hpp"
#include "run/identity.hpp"
#include "run/text_file.hpp"

namespace sabot::cli {
namespace {

constexpr const char* kPlan = R"toml(  sabot    = 1
  name     = "the training recovers"
  command  = ["torchrun", "--nproc-per-node", "2", "--max-restarts", "1", "train.py"]
  deadline = "120s"                            # of each case; then everything is ended
  check    = "stdout:rank ([0-9]+): loss (.*)" # must be as without a fault, on every rank
  progress = "stdout:step ([0-9]+)"            # tells how many steps were lost

  [[scenario]]
  file = "nic-dies.toml"                       # relative to the plan; or written here

  [[generate]]                                 # the calls that the job makes, all ranks
  actions = ["error(SystemError)", "hang"]
  phases  = ["init", "first", "steady"]        # last, group and teardown too
  budget  = 12
  expect  = { outcome = "recovers|fails-cleanly", detected_within = "30s" }
)toml";

constexpr const char* kExamples =
    R"(  sabot drill my-plan.toml
  sabot drill my-plan.toml --junit drill.xml --html drill.html -- python3 other.py
  sabot drill my-plan.toml --resume          after a crash: finishes the last drill
)";

constexpr const char* kOutcomes =
    R"(  completes      status 0; nobody was given an error, nothing was restarted
  recovers       status 0, after an error or a restart
  fails-cleanly  ended by itself with another status, and left nothing behind
  hangs          had to be ended at the deadline
  dies-dirty     ended by a signal that no fault sent, or left processes or files behind
  wrong-result   status 0, and the check does not agree with the run without faults
  not-recorded   cannot be judged: the disk was full, the command could not start
  A case without an expectation may end in any of the first three ways. In every case each
  fault must have fired, unless [expect] says that it does not.
)";

constexpr const char* kWritten =
    R"(  DIR/plan.toml, plan.json      what was drilled
  DIR/baseline, DIR/cases/NNN   run/, a run folder; output.log; scenario.toml; work/
  DIR is runs/drill-TIME-PID unless --run-folder names it; runs/latest-drill points at the last.
  In the words of command and check, {work} is a folder of the case, {output} what it printed,
  {run} its run folder, {baseline} and {baseline_output} those of the run without faults.
)";

constexpr const char* kStatuses = R"(  0    every expectation holds
  1    at least one does not
  2    bad words, a bad plan, or a command that fails without any fault; no case was run
  77   skipped: what the plan needs is not there
  128 + N if signal N ended the drill; --resume finishes it
)";

struct DrillWords {
  std::string junit, json, html, run_folder;
  std::uint64_t parallel = 0;
  std::uint64_t budget = 0;
  std::uint64_t seed = kNoSeed;
  bool resume = false;
  static constexpr std::uint64_t kNoSeed = ~0ULL;
};

void declare(Parser& parser, DrillWords& words) {
  parser.option("--junit", "FILE", "Write the result as JUnit XML, for systems that run tests.",
                words.junit);
  parser.option("--json", "FILE", "Write the result as JSON, for programs.", words.json);
  parser.option("--html", "FILE", "Write the result as one page, with a timeline of each run.",
                words.html);
  parser.option("--run-folder", "DIR", "Where the drill writes; must not hold another.",
                words.run_folder);
  parser.flag("--resume", "Finish a drill that was interrupted: run only what is left.",
              words.resume);
  parser.number("--parallel", "Cases at work at one time, instead of the plan's.", 1,
                drill::kParallelMax, words.parallel);
  parser.number("--budget", "Most cases of each [[generate]], instead of the plan's.", 1,
                drill::kBudgetMax, words.budget);
  parser.number("--seed", "The seed of the sample, instead of the plan's.", 0, INT64_MAX,
                words.seed);
  parser.section("A plan", kPlan);
  parser.section("Examples", kExamples);
  parser.section("What can become of a job", kOutcomes);
  parser.section("What a drill writes", kWritten);
  parser.section("Exit status", kStatuses);
}

std::size_t columns_of(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

drill::DrillOptions options_of(const DrillWords& words, const std::string& plan) {
  drill::DrillOptions options;
  options.plan = plan;
  options.run_folder = words.run_folder;
  options.resume = words.resume;
  if (words.parallel != 0) options.parallel = words.parallel;
  if (words.budget != 0) options.budget = words.budget;
  if (words.seed != DrillWords::kNoSeed) options.seed = words.seed;
  return options;
}

// Tried before the drill, as hours of work end in these files.
Status check_writable(const DrillWords& words) {
  for (const std::string& path : {words.junit, words.json, words.html})
    if (!path.empty()) SABOT_TRY(run::write_file(path, ""));
  return {};
}

Status write_files(const DrillWords& words, const drill::DrillReport& report) {
  Status first;
  const auto write = [&first](const std::string& path, const std::string& content) {
    Status written = run::write_file(path, content);
    if (!written.ok() && first.ok()) first = std::move(written);
  };
  if (!words.junit.empty()) write(words.junit, drill::report::junit_of(report));
  if (!words.json.empty()) write(words.json, drill::report::json_of(report));
  if (!words.html.empty()) write(words.html, drill::report::html_of(report));
  return first;
}

// The command is looked up before anything is made; one that a script of the job would find by
// other means is not for us to know.
Status check_command(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  const std::string path(config::process().get<config::KnobId::kPath>());
  SABOT_TRY(launch::find_program(command[0], path));
  return {};
}

int act(const DrillWords& words, drill::DrillOptions options) {
  drill::DrillSurroundings around;
  around.program = run::executable_path();
  around.version = SABOT_VERSION;
  around.environment = config::environment();
  around.check_command = &check_command;
  around.progress.is_terminal = ::isatty(2) == 1;
  around.progress.columns = columns_of(2);
  around.progress.write = [](std::string_view text) { log::write_all(2, text); };
  const Result<drill::DrillEnd> end = drill::carry_out(options, around);
  if (!end.ok()) {
    print_error("sabot drill: " + end.error().message());
    return drill::kStatusBadInput;
  }
  const Paint paint(1);
  const bool is_coloured = !paint.bold("").empty();
  print_out(drill::report::table_of(
      end->report, {.coloured = is_coloured, .columns = std::max<std::size_t>(80, columns_of(1))}));
  const Status written = write_files(words, end->report);
  if (!written.ok()) print_error("sabot drill: " + written.error().message());
  if (end->signal != 0)
    print_error("sabot drill: ended by signal " + std::to_string(end->signal) +
                "; the same words with --resume --run-folder " + end->report.folder + " finish it");
  return !written.ok() && end->status == 0 ? drill::kStatusFails : end->status;
}

}  // namespace

int drill_verb(const Words& words) {
  Parser parser(
      "drill", "sabot drill PLAN.toml [options] [-- COMMAND [ARGUMENT…]]",
      "Runs a command under one scenario after the other, and judges whether it recovers,\n"
      "how fast, and whether its result is still right.");
  DrillWords given;
  declare(parser, given);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (const auto status = parser.parse(Words(words.begin(), dashes))) return *status;
  if (parser.rest().empty()) return parser.refuse("the plan is missing");
  if (parser.rest().size() > 1)
    return parser.refuse("one plan at a time; the command stands behind --");
  drill::DrillOptions options = options_of(given, parser.rest()[0]);
  if (dashes != words.end()) options.command.assign(dashes + 1, words.end());
  if (dashes != words.end() && options.command.empty())
    return parser.refuse("the command behind -- is missing");
  const Status writable = check_writable(given);
  if (!writable.ok()) return parser.refuse(writable.error().message());
  return act(given, std::move(options));
}

}  // namespace sabot::cli
