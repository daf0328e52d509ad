// `sabot ctl`: changes a run while it goes on, or says how it stands.
#include <unistd.h>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "launch/control/client.hpp"
#include "launch/control/run_status.hpp"
#include "run/text_file.hpp"

namespace sabot::cli {
namespace {

namespace control = launch::control;

constexpr int kStatusNoRun = 1;
constexpr std::uint64_t kNoRank = ~std::uint64_t{0};
constexpr const char* kLatest = "runs/latest";

constexpr const char* kRequests =
    R"(  status          faults, switches, processes; what is held now, by which rank, how long
  arm NAME        the fault may fire by its trigger; a switch is turned on
  disarm NAME     it may not; a request to fire is withdrawn; a switch is turned off
  fire NAME       it fires once, at the next call that meets its conditions, whatever its
                  nth, range, every, probability and after say, and also if it is disarmed;
                  its budget and its switch count
  release [NAME]  what the fault holds goes on: hangs, delays, links; without a name all
  add FILE        the faults of one more scenario, under names that are not in use
)";

constexpr const char* kExamples = R"(  sabot ctl status
  sabot ctl runs/2026-11-30T11-22-45-4242 fire nic-dies --rank 3
  sabot ctl add more-faults.toml && sabot ctl release
)";

constexpr const char* kNotes =
    R"(  RUN is the run folder: SABOT_RUN_FOLDER or runs/latest unless it is named. The launcher
  (`sabot run`) serves RUN/control.sock, which only the user of the run may use; processes
  on its host see a change at their next call, held ones within milliseconds. Over several
  hosts, give the command on the host that `status` names.
)";

constexpr const char* kStatuses = R"(  0  done
  1  there is no such run, it has ended, or it does not answer
  2  bad words, or the run refused: unknown name, scenario with mistakes
)";

struct CtlWords {
  std::uint64_t rank = kNoRank;
  bool json = false;
};

struct Asked {
  std::string run_folder;
  control::Request request;
};

std::string known_words() {
  std::vector<std::string_view> words;
  for (const control::VerbRow& row : control::verb_rows()) words.push_back(row.word);
  return join(words, ", ");
}

Error unknown(const std::string& word) {
  std::vector<std::string_view> words;
  for (const control::VerbRow& row : control::verb_rows()) words.push_back(row.word);
  const auto close = nearest(word, words);
  return Error(Code::kInvalidUsage, "unknown word '" + word + "'; " +
                                        (close ? "did you mean '" + std::string(*close) + "'?"
                                               : "say " + known_words()));
}

std::string default_run() {
  const auto settings =
      config::Snapshot::resolve({.environment = config::environment(), .command_line = {}});
  const std::string named(settings.get<config::KnobId::kRunFolder>());
  return named.empty() ? kLatest : named;
}

// The words behind the request: a name, a file, or nothing.
Status take_argument(const Words& words, control::Request& request) {
  const control::VerbRow& row = control::row_of(request.verb);
  const std::string verb(row.word);
  const bool needs_file = request.verb == control::Verb::kAdd;
  if (words.empty() && needs_file)
    return Error(Code::kInvalidUsage, "name the scenario file to add");
  if (words.empty() && row.needs_name)
    return Error(Code::kInvalidUsage, "name the fault to " + verb);
  const std::size_t most = needs_file || row.takes_name ? 1 : 0;
  if (words.size() > most)
    return Error(Code::kInvalidUsage, verb + " takes no word '" + words[most] + "'");
  if (words.empty()) return {};
  if (!needs_file) {
    request.name = words[0];
    return {};
  }
  request.file = words[0];
  request.text = SABOT_TRY(run::read_text_file("scenario", words[0]));
  return {};
}

Result<Asked> asked_by(const Words& words, const CtlWords& given) {
  if (words.empty()) return Error(Code::kInvalidUsage, "say " + known_words());
  Asked asked;
  std::optional<control::Verb> verb = control::verb_named(words[0]);
  std::size_t used = 1;
  if (!verb) {
    asked.run_folder = words[0];
    if (words.size() == 1 && ::access(words[0].c_str(), F_OK) != 0) return unknown(words[0]);
    if (words.size() == 1)
      return Error(Code::kInvalidUsage,
                   "say what to do with run '" + words[0] + "': " + known_words());
    verb = control::verb_named(words[1]);
    if (!verb) return unknown(words[1]);
    used = 2;
  }
  asked.request.verb = *verb;
  SABOT_TRY(take_argument(Words(words.begin() + static_cast<std::ptrdiff_t>(used), words.end()),
                          asked.request));
  if (given.rank != kNoRank && *verb != control::Verb::kFire)
    return Error(Code::kInvalidUsage, "--rank belongs to fire");
  if (given.json && *verb != control::Verb::kStatus)
    return Error(Code::kInvalidUsage, "--json belongs to status");
  if (given.rank != kNoRank) asked.request.rank = static_cast<std::int32_t>(given.rank);
  return asked;
}

int failed(const Error& error, const control::Request& request) {
  // The mistakes of a scenario name their file themselves, one a line.
  const bool is_scenario =
      request.verb == control::Verb::kAdd && error.code() == Code::kInvalidArgument;
  print_error((is_scenario ? "" : "sabot ctl: ") + error.message());
  const bool is_refusal =
      error.code() == Code::kInvalidArgument || error.code() == Code::kInvalidUsage;
  return is_refusal ? kStatusUsage : kStatusNoRun;
}

}  // namespace

int ctl_verb(const Words& words) {
  Parser parser("ctl", "sabot ctl [RUN] status|arm|disarm|fire|release|add [NAME | FILE]",
                "Changes a run while it goes on, or says how it stands.");
  CtlWords given;
  parser.number("--rank",
                "With fire: on this rank (world rank) only; else on the first that comes.", 0,
                control::kRankMax, given.rank);
  parser.flag("--json", "With status: as JSON, for programs.", given.json);
  parser.section("Requests", kRequests);
  parser.section("Examples", kExamples);
  parser.section("The run", kNotes);
  parser.section("Exit status", kStatuses);
  if (const auto status = parser.parse(words)) return *status;
  Result<Asked> asked = asked_by(parser.rest(), given);
  if (!asked.ok()) return parser.refuse(asked.error().message());
  if (asked->run_folder.empty()) {
    asked->run_folder = default_run();
    if (asked->run_folder == kLatest && ::access(kLatest, F_OK) != 0) {
      print_error(
          "sabot ctl: no run was started in this folder (there is no runs/latest); name "
          "its run folder: sabot ctl RUN status");
      return kStatusNoRun;
    }
  }
  const Result<run::JsonValue> answer = control::ask(asked->run_folder, asked->request);
  if (!answer.ok()) return failed(answer.error(), asked->request);
  if (asked->request.verb != control::Verb::kStatus)
    print_out((*answer)["text"].text() + "\n");
  else if (given.json)
    print_out(control::to_json(control::status_of((*answer)["status"])) + "\n");
  else
    print_out(control::text_of(control::status_of((*answer)["status"])));
  return 0;
}

}  // namespace sabot::cli
