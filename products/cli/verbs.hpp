// The verbs of the command line, one function and one file each. They parse, call what does the
// work, and print; they decide nothing.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "cli/parser.hpp"
#include "launch/run.hpp"

namespace sabot::cli {

int run_verb(const Words& words);
int ctl_verb(const Words& words);
int demo_verb(const Words& words);
int scenario_verb(const Words& words);
int drill_verb(const Words& words);
int schedule_verb(const Words& words);
int version_verb(const Words& words);
int help_verb(const Words& words);

struct Verb {
  std::string_view name;
  std::string_view summary;
  int (*act)(const Words& words);
};
std::span<const Verb> verbs();
const Verb* find_verb(std::string_view name);

// What stands around `sabot run` in this process; refuses with a message where it cannot be found.
std::optional<launch::Surroundings> surroundings();

// The page of `sabot help`.
std::string overview();

}  // namespace sabot::cli
