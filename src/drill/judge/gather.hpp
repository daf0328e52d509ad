// Evidence from the folder of a case: everything but what was expected. The only part of judging
// that reads files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "drill/folder.hpp"
#include "drill/generate/generate.hpp"
#include "drill/judge/evidence.hpp"
#include "drill/plan/plan.hpp"
#include "drill/words.hpp"

namespace sabot::drill {

inline constexpr std::size_t kTailLinesMax = 40;

Evidence gather(const PlannedCase& planned, const Plan& plan, const Places& places,
                const CaseFolder::Finished& finished);

// The parts of the lines of a source (stdout, or a file) that match a pattern, in their order. An
// error where the file cannot be read.
Result<std::vector<std::vector<std::string>>> matches_in(const Pattern& pattern,
                                                         const Places& places);

// Steps that were done again, and those that the baseline did and this run never reached. The first
// part of a match is the number of a step; the second, if there is one, tells apart those who
// print, of whom the one who lost most counts. Nothing where nothing matched.
std::optional<std::uint64_t> steps_lost_of(const std::vector<std::vector<std::string>>& mine,
                                           const std::vector<std::vector<std::string>>& baseline);

// The result of a case against that of the baseline, by a pattern: the same matches, whoever
// printed them in whatever order.
Check compare_matches(std::vector<std::vector<std::string>> mine,
                      std::vector<std::vector<std::string>> baseline);

// The end of a text file, line by line.
std::vector<std::string> tail_of(const std::string& path, std::size_t lines_max);

// Why nothing more can be written below a path; "" if there is room.
std::string disk_problem_of(const std::string& path);

}  // namespace sabot::drill
