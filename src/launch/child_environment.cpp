// Building the environment of the command.
#include "launch/child_environment.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sabot::launch {
namespace {

using config::KnobId;

bool is_ours(std::string_view pair) { return pair.starts_with("SABOT_"); }

std::string absolute(std::string_view path, std::string_view working_folder) {
  if (path.empty() || path.starts_with('/')) return std::string(path);
  return std::string(working_folder) + "/" + std::string(path);
}

// The knobs as they reach the command; those that the launcher decides are overwritten by the
// caller.
std::string passed_on(const config::Knob& knob, const config::Snapshot& settings,
                      std::string_view working_folder) {
  const config::Value& value = settings.value(knob.id);
  const bool chosen = value.is_set && (value.source == config::Source::kEnvironment ||
                                       value.source == config::Source::kCommandLine);
  if (knob.foreign || !chosen) return "";
  if (knob.kind == config::Kind::kPath) return absolute(value.text, working_folder);
  return value.text;
}

}  // namespace

std::string preload_with(std::string_view library, std::string_view tree, std::string_view before) {
  std::string text(library);
  std::string spaced(before);
  // The loader separates by colons and by spaces alike.
  std::replace(spaced.begin(), spaced.end(), ' ', ':');
  for (const std::string_view entry : split(spaced, ':')) {
    const bool from_tree = !tree.empty() && entry.starts_with(std::string(tree) + "/");
    if (entry.empty() || entry == library || from_tree) continue;
    text.append(":").append(entry);
  }
  return text;
}

std::string python_path_with(std::string_view folder, std::string_view before) {
  const std::vector<std::string_view> entries = split(before, ':');
  const bool is_there = std::find(entries.begin(), entries.end(), folder) != entries.end();
  if (folder.empty() || folder.find(':') != folder.npos || is_there) return std::string(before);
  if (before.empty()) return std::string(folder);
  return std::string(before) + ":" + std::string(folder);
}

std::vector<std::string> child_environment(const char* const* environment,
                                           const config::Snapshot& settings,
                                           const ChildSettings& child) {
  std::vector<std::string> lines;
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    const bool is_extended = pair.starts_with("LD_PRELOAD=") || pair.starts_with("PYTHONPATH=");
    const bool is_replaced =
        std::any_of(child.variables.begin(), child.variables.end(),
                    [&](const auto& one) { return pair.starts_with(one.first + "="); });
    if (!is_ours(pair) && !is_extended && !is_replaced) lines.emplace_back(pair);
  }
  const auto put = [&lines](std::string_view name, const std::string& value) {
    if (!value.empty()) lines.push_back(std::string(name) + "=" + value);
  };
  put("LD_PRELOAD", preload_with(child.preload, child.tree, settings.get<KnobId::kLdPreload>()));
  put("PYTHONPATH", python_path_with(child.python, settings.get<KnobId::kPythonPath>()));
  for (const auto& [name, value] : child.variables) put(name, value);
  for (const config::Knob& knob : config::kKnobs) {
    std::string value;
    switch (knob.id) {
      case KnobId::kEngine: value = child.engine; break;
      case KnobId::kRunFolder: value = child.run_folder; break;
      case KnobId::kScenario: value = child.scenario; break;
      case KnobId::kFault: value = child.faults; break;
      case KnobId::kLauncher: value = child.launcher; break;
      default: value = passed_on(knob, settings, child.working_folder);
    }
    put(knob.name, value);
  }
  return lines;
}

}  // namespace sabot::launch
