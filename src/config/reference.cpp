// The reference page of the knobs, generated from the table so that it cannot lag behind it.
#include <vector>

#include "base/text.hpp"
#include "config/knob.hpp"

namespace sabot::config {
namespace {

constexpr std::string_view kIntroduction = R"(# Knobs

Generated from `src/config/knobs.def`; `sabot help knobs --markdown` prints it.

The command line wins over the environment, the environment over the scenario file, the file over
the default. A value that cannot be read is reported once and the next source counts. An unknown
`SABOT_` variable is reported with the nearest known name. An empty variable counts as not set.

## Ours

)";

std::string type_text(const Knob& knob) {
  switch (knob.kind) {
    case Kind::kSwitch: return "switch (0, 1, off, on, false, true, no, yes)";
    case Kind::kInteger:
      return knob.unit.empty() ? "whole number" : "whole number, " + std::string(knob.unit);
    case Kind::kDuration: return "duration with its unit (200ms, 1.5s, 2m)";
    case Kind::kChoice: {
      std::vector<std::string> quoted;
      for (const std::string_view word : split(knob.unit, '|'))
        quoted.push_back("`" + std::string(word) + "`");
      return join(std::vector<std::string_view>(quoted.begin(), quoted.end()), ", ");
    }
    case Kind::kText: return "text";
    case Kind::kPath: return "path";
  }
  return "";
}

std::string sources_text(const Knob& knob) {
  std::string text;
  const auto add = [&](std::string_view word) {
    if (!text.empty()) text.append(", ");
    text.append(word);
  };
  if ((knob.sources & kCommandLine) != 0) add("command line `" + std::string(knob.option) + "`");
  if ((knob.sources & kEnvironment) != 0) add("environment");
  if ((knob.sources & kFile) != 0) add("scenario file");
  return text;
}

void append_own(std::string& page, const Knob& knob) {
  page.append("### `").append(knob.name).append("`\n\n");
  page.append(knob.description).append("\n\n");
  page.append("| type | default | set by | example | since |\n|---|---|---|---|---|\n| ");
  page.append(type_text(knob)).append(" | ");
  page.append(knob.fallback.empty() ? "not set" : "`" + std::string(knob.fallback) + "`");
  page.append(" | ").append(sources_text(knob)).append(" | `");
  page.append(knob.example).append("` | ").append(knob.since).append(" |\n\n");
}

}  // namespace

std::string reference_markdown() {
  std::string page(kIntroduction);
  for (const Knob& knob : kKnobs)
    if (!knob.foreign) append_own(page, knob);
  page.append("## Variables of others that are honoured\n\n");
  page.append("| variable | type | what for |\n|---|---|---|\n");
  for (const Knob& knob : kKnobs) {
    if (!knob.foreign) continue;
    page.append("| `").append(knob.name).append("` | ").append(type_text(knob));
    page.append(" | ").append(knob.description).append(" |\n");
  }
  return page;
}

}  // namespace sabot::config
