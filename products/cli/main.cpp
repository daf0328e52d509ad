// sabot: the command line. Finds the verb and gives it the words behind it.
#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "driver/probe.hpp"

namespace sabot::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"run", "run a command with Sabot in it: faults, log, journal", &run_verb},
    {"ctl", "change a run while it goes on: arm, fire, release, add", &ctl_verb},
    {"demo", "see a fault arrive, in a program of ours, without a GPU", &demo_verb},
    {"scenario", "check scenario files, or show what they mean", &scenario_verb},
    {"drill", "run a job under many scenarios, and judge whether it recovers", &drill_verb},
    {"schedule", "show what each rank does in a collective, step by step", &schedule_verb},
    {"version", "say which version this is and where its parts are", &version_verb},
    {"help", "explain a verb, or list the environment variables", &help_verb},
};

int complain(const std::string& word) {
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  const auto close = nearest(word, names);
  print_error("sabot: unknown verb '" + word + "'" +
              (close ? "; did you mean '" + std::string(*close) + "'?" : "") +
              "\n`sabot help` lists the verbs.");
  return kStatusUsage;
}

// Counting devices starts the driver: the launcher does it in a child.
Result<int> count_devices() { return driver::count_devices(); }

int dispatch(const Words& words) {
  if (words.empty()) {
    print_error(overview());
    return kStatusUsage;
  }
  if (words[0] == "--help" || words[0] == "-h") return help_verb({});
  if (words[0] == "--version") return version_verb({});
  const Verb* const verb = find_verb(words[0]);
  if (verb == nullptr) return complain(words[0]);
  return verb->act(Words(words.begin() + 1, words.end()));
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : kVerbs)
    if (verb.name == name) return &verb;
  return nullptr;
}

std::optional<launch::Surroundings> surroundings() {
  Result<launch::Installation> installation = launch::find_installation();
  if (!installation.ok()) {
    print_error("sabot: " + installation.error().message());
    return std::nullopt;
  }
  return launch::Surroundings{.installation = std::move(installation).value(),
                              .version = SABOT_VERSION,
                              .count_devices = &count_devices,
                              .environment = config::environment()};
}

}  // namespace sabot::cli

int main(int argc, char** argv) {
  return sabot::cli::dispatch(sabot::cli::Words(argv + (argc > 0 ? 1 : 0), argv + argc));
}
