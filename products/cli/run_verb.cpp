// `sabot run`: options into knobs, then launch::run.
#include <algorithm>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"

namespace sabot::cli {
namespace {

using config::KnobId;

constexpr const char* kExamples =
    R"(  Rank 1 gets a system error from its third all-reduce, once in the whole run:
    sabot run --fault 'AllReduce[rank=1,nth=3,budget=1]=error(SystemError)' \
        -- torchrun --nproc-per-node 2 train.py

  The same from a file, failing the test if the fault never fired:
    sabot run --scenario nic-dies.toml --require-fired -- python3 train.py

  One line for each NCCL call, in a file for each rank:
    sabot run --log calls --log-file calls.%r.log -- python3 train.py

  On a machine without a GPU, a program that passes host pointers:
    sabot run --engine host -- ./allreduce --ranks 4
)";

constexpr const char* kStatuses = R"(  the command's own, or 128 + N if signal N ended it
  2  bad words or bad input; nothing was started
  3  CUDA or NCCL was used, but Sabot could not get into it
  4  with --require-fired: a fault never fired
  3 and 4 replace only a status of 0.
)";

constexpr const char* kFiles =
    R"(  RUN/config.json           what was decided, and from which source
  RUN/attach/HOST.PID.json  each process: which library, which engine, why
  RUN/journal/*.jsonl       a line for each fault that fired, written before it acts
  RUN/control.sock          where sabot ctl reaches the run while it goes on
  RUN is runs/TIME-PID unless --run-folder names it; runs/latest points at the last.
)";

struct RunWords {
  std::string engine, scenario, run_folder, log, log_file, real_nccl, seed;
  std::vector<std::string> faults;
  bool require_fired = false;
  bool quiet = false;
};

void declare(Parser& parser, RunWords& words) {
  parser.option("--scenario", "FILE", "The faults to place, as a TOML file (sabot help scenario).",
                words.scenario);
  parser.list("--fault", "LINE",
              "A fault in one line: CALL[CONDITION,…]=ACTION. May be given several times.",
              words.faults);
  parser.option("--engine", "WORD",
                "auto, real or host: the vendor's library, or CPU memory. auto takes real if there "
                "are a CUDA device and a libnccl.",
                words.engine);
  parser.option("--run-folder", "DIR", "Where the run writes; must not hold another run.",
                words.run_folder);
  parser.option("--log", "WORD",
                "off, errors, calls or all: one line for each call, to stderr or --log-file.",
                words.log);
  parser.option("--log-file", "FILE",
                "Where the log goes: %r is the rank, %p the process, %h the host.", words.log_file);
  parser.option("--seed", "N", "The seed of random decisions, instead of the scenario's.",
                words.seed);
  parser.option("--real-nccl", "FILE", "The libnccl to wrap, instead of the one found.",
                words.real_nccl);
  parser.flag("--require-fired", "Exit with 4 if a fault of the run never fired.",
              words.require_fired);
  parser.flag("--quiet", "No lines of ours on stderr, errors apart.", words.quiet);
  parser.section("Examples", kExamples);
  parser.section("What a run writes", kFiles);
  parser.section("Exit status", kStatuses);
}

// The knobs that were given, each checked as it is taken over; the error names option and value.
Result<std::vector<config::Assignment>> knobs_of(const RunWords& words) {
  const std::string quiet = words.quiet ? "1" : "";
  const std::vector<std::string_view> lines(words.faults.begin(), words.faults.end());
  const std::vector<config::Assignment> all{{KnobId::kScenario, words.scenario},
                                            {KnobId::kFault, join(lines, ";")},
                                            {KnobId::kEngine, words.engine},
                                            {KnobId::kRunFolder, words.run_folder},
                                            {KnobId::kLog, words.log},
                                            {KnobId::kLogFile, words.log_file},
                                            {KnobId::kSeed, words.seed},
                                            {KnobId::kRealNccl, words.real_nccl},
                                            {KnobId::kQuiet, quiet}};
  std::vector<config::Assignment> given;
  for (const config::Assignment& entry : all) {
    if (entry.text.empty()) continue;
    const config::Knob& knob = config::knob(entry.id);
    const Result<config::Value> value = config::parse_value(knob, entry.text);
    if (!value.ok())
      return Error(Code::kInvalidArgument,
                   std::string(knob.option) + ": " + value.error().message());
    given.push_back(entry);
  }
  return given;
}

}  // namespace

int run_verb(const Words& words) {
  Parser parser("run", "sabot run [options] [--] COMMAND [ARGUMENT…]",
                "Runs a command with Sabot in every process of it that uses NCCL.");
  parser.stop_at_first_word();
  RunWords given;
  declare(parser, given);
  // Everything behind the first "--" is the command's, its own "--" included.
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (const auto status = parser.parse(Words(words.begin(), dashes))) return *status;
  launch::RunOptions options;
  options.command = parser.rest();
  options.command.insert(options.command.end(),
                         options.command.empty() && dashes != words.end() ? dashes + 1 : dashes,
                         words.end());
  if (options.command.empty()) return parser.refuse("the command to run is missing");
  Result<std::vector<config::Assignment>> knobs = knobs_of(given);
  if (!knobs.ok()) return parser.refuse(knobs.error().message());
  options.knobs = std::move(knobs).value();
  options.require_fired = given.require_fired;
  const std::optional<launch::Surroundings> around = surroundings();
  if (!around) return kStatusUsage;
  return launch::run(options, *around).status;
}

}  // namespace sabot::cli
