// `sabot help`: the overview, the page of a verb, or the environment variables.
#include <algorithm>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "config/knob.hpp"

namespace sabot::cli {
namespace {

constexpr const char* kFirstSteps = R"(  sabot demo
  sabot run --fault 'AllReduce[rank=1,nth=3]=error(SystemError)' -- torchrun train.py
  sabot scenario check my-faults.toml
)";

// What a person wants to see of a knob: its name, its default, what it means.
std::string knobs_page() {
  const Paint paint(1);
  std::string page =
      "The environment variables of Sabot. The command line wins over them, they win over a "
      "file.\n";
  for (const config::Knob& knob : config::kKnobs) {
    if (knob.foreign) continue;
    page += "\n" + paint.bold(knob.name);
    if (!knob.fallback.empty()) page += " (default " + std::string(knob.fallback) + ")";
    page += "\n  " + std::string(knob.description) + "\n  Example: " + std::string(knob.name) +
            "=" + std::string(knob.example) + "\n";
  }
  page += "\n" + paint.bold("Variables of others that are honoured") + "\n ";
  for (const config::Knob& knob : config::kKnobs)
    if (knob.foreign) page += " " + std::string(knob.name);
  return page + "\n";
}

int unknown(const Parser& parser, const std::string& word) {
  std::vector<std::string_view> names{"knobs"};
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  const auto close = nearest(word, names);
  return parser.refuse("there is no page '" + word + "'" +
                       (close ? "; did you mean '" + std::string(*close) + "'?" : ""));
}

}  // namespace

std::string overview() {
  const Paint paint(1);
  std::string page =
      "Sabot breaks NCCL collectives on purpose, inside a program that nobody changed, and proves\n"
      "that the fault arrived; with GPUs, or without any.\n\n" +
      paint.bold("Usage") + "\n  sabot VERB [options]\n\n" + paint.bold("Verbs") + "\n";
  for (const Verb& verb : verbs()) {
    std::string name(verb.name);
    name.resize(10, ' ');
    page += "  " + name + std::string(verb.summary) + "\n";
  }
  page += "\n" + paint.bold("First steps") + "\n" + kFirstSteps + "\n";
  return page +
         "`sabot help VERB` explains a verb, `sabot help knobs` the environment variables.\n";
}

int help_verb(const Words& words) {
  Parser parser("help", "sabot help [VERB | knobs]",
                "Explains a verb, or lists the environment variables.");
  bool markdown = false;
  parser.flag("--markdown", "With knobs: the reference page instead.", markdown);
  if (const auto status = parser.parse(words)) return *status;
  const Words& rest = parser.rest();
  if (rest.size() > 1) return parser.refuse("one page at a time");
  if (rest.empty()) {
    print_out(overview());
    return 0;
  }
  if (rest[0] == "knobs") {
    print_out(markdown ? config::reference_markdown() : knobs_page());
    return 0;
  }
  const Verb* const verb = find_verb(rest[0]);
  if (verb == nullptr) return unknown(parser, rest[0]);
  return verb->act({"--help"});
}

}  // namespace sabot::cli
