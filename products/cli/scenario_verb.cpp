// `sabot scenario check` and `sabot scenario show`.
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "launch/plan.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"
#include "scenario/print.hpp"

namespace sabot::cli {
namespace {

constexpr const char* kExample = R"(  sabot = 1
  name  = "allreduce returns a system error on rank 1"
  seed  = 42

  [[fault]]
  name   = "nic-dies"
  when   = { call = "AllReduce", rank = 1, nth = 3, attempt = 0 }
  do     = { error = "SystemError" }
  budget = 1                     # at most once in the run, restarts included
)";

constexpr const char* kExamples = R"(  sabot scenario check faults/*.toml
  sabot scenario show nic-dies.toml
  sabot scenario show --fault 'AllReduce[rank=1,nth=3]=error(SystemError)'
)";

constexpr const char* kStatuses = R"(  0  every file is a scenario
  2  at least one is not: each mistake is named with file, line and the nearest right word
)";

std::string counted(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " fault" : " faults");
}

void warn(const scenario::Scenario& scenario, const std::string& name) {
  for (const std::string& warning : scenario.warnings) print_error(name + ": warning: " + warning);
}

// Tells about each scenario that a run would take; returns the exit status.
template <typename Tell>
int for_each(const Words& files, const std::vector<std::string>& lines, Tell tell) {
  int status = 0;
  const auto take = [&](const std::string& name, const Result<scenario::Scenario>& scenario) {
    const Status usable =
        scenario.ok() ? scenario::check_decidable(*scenario) : Status(Error(scenario.error()));
    if (!usable.ok()) {
      print_error(usable.error().message());
      status = kStatusUsage;
      return;
    }
    warn(*scenario, name);
    tell(name, *scenario);
  };
  for (const std::string& file : files) take(file, launch::load_scenario_file(file));
  for (const std::string& line : lines) take("--fault", scenario::parse_line(line, "--fault"));
  return status;
}

int check(const Words& files, const std::vector<std::string>& lines) {
  return for_each(files, lines, [](const std::string& name, const scenario::Scenario& scenario) {
    print_out(name + ": fine, " + counted(scenario.faults.size()) + "\n");
  });
}

int show(const Words& files, const std::vector<std::string>& lines) {
  return for_each(files, lines, [](const std::string&, const scenario::Scenario& scenario) {
    print_out("# as a file\n" + scenario::to_toml(scenario));
    print_out("\n# in one line\n# " + scenario::to_line(scenario) + "\n");
  });
}

}  // namespace

int scenario_verb(const Words& words) {
  Parser parser(
      "scenario", "sabot scenario check|show [FILE…] [--fault LINE]",
      "Checks scenario files before a job is started with them, or shows what they mean.\n"
      "check says whether each is fine; show prints each in its canonical form, as a file "
      "and in\none line.");
  std::vector<std::string> lines;
  parser.list("--fault", "LINE", "A fault in one line instead of a file.", lines);
  parser.section("A scenario", kExample);
  parser.section("Examples", kExamples);
  parser.section("Exit status", kStatuses);
  if (const auto status = parser.parse(words)) return *status;
  const Words& rest = parser.rest();
  if (rest.empty()) return parser.refuse("say check or show");
  const Words files(rest.begin() + 1, rest.end());
  if (rest[0] != "check" && rest[0] != "show")
    return parser.refuse("unknown word '" + rest[0] + "'; say check or show");
  if (files.empty() && lines.empty()) return parser.refuse("the scenario file is missing");
  return rest[0] == "check" ? check(files, lines) : show(files, lines);
}

}  // namespace sabot::cli
