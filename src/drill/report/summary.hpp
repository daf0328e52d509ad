// What all outputs for people say in the same words: the verdict of a case and of the drill.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "drill/result.hpp"

namespace sabot::drill::report {

enum class Verdict : std::uint8_t { kHolds, kFails, kSkipped };

Verdict verdict_of(const Case& one);

// The baseline, where there is one, and the cases, in that order.
std::vector<const Case*> all_cases(const DrillReport& report);

struct Counts {
  std::uint64_t cases = 0;  // the baseline is one
  std::uint64_t holding = 0;
  std::uint64_t failing = 0;
  std::uint64_t skipped = 0;
  std::uint64_t not_recorded = 0;  // of the failing ones
};
Counts counts_of(const DrillReport& report);

// "all 12 cases are as expected", "2 of 12 cases are not as expected, 1 skipped; …".
std::string verdict_sentence(const DrillReport& report);

// What a person has to know where a case is not as expected: the reasons, what the check said,
// what was left behind, what could not be read.
std::vector<std::string> complaints_of(const Case& one);

// "1.5ms", or "-" where there is nothing to tell.
std::string text_or_dash(const std::optional<std::uint64_t>& duration_ns);

// The command as one line; words with blanks are quoted as a shell wants them.
std::string command_text(const std::vector<std::string>& words);

}  // namespace sabot::drill::report
