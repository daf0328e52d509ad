// The words of commands: placeholders filled in, and the `sabot run` around them.
#pragma once

#include <string>
#include <vector>

#include "drill/folder.hpp"

namespace sabot::drill {

// What stands for what: {work} and {output} are of the case, {baseline} and {baseline_output} of
// the baseline, {run} is the case's run folder.
struct Places {
  CaseFolder mine;
  CaseFolder baseline;
};
std::string filled_in(const std::string& word, const Places& places);
std::vector<std::string> filled_in(const std::vector<std::string>& words, const Places& places);

// Whether a command compares with the baseline by itself.
bool names_baseline(const std::vector<std::string>& words);

// A command as a shell takes it.
std::string shell_text(const std::vector<std::string>& words);

// The environment for a run of its own: without what would make it join another, or break it in
// other ways than its scenario.
std::vector<std::string> environment_for_runs(const char* const* environment);

}  // namespace sabot::drill
