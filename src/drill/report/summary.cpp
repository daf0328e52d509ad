// The few decisions about words that the outputs share.
#include "drill/report/summary.hpp"

#include <algorithm>

#include "drill/report/text.hpp"

namespace sabot::drill::report {
namespace {

constexpr std::string_view kPlainCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kPlainCharacters) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted.push_back(c);
  }
  return quoted + "'";
}

}  // namespace

Verdict verdict_of(const Case& one) {
  if (one.outcome == Outcome::kSkipped) return Verdict::kSkipped;
  return one.holds ? Verdict::kHolds : Verdict::kFails;
}

std::vector<const Case*> all_cases(const DrillReport& report) {
  std::vector<const Case*> cases;
  if (report.baseline) cases.push_back(&*report.baseline);
  for (const Case& one : report.cases) cases.push_back(&one);
  return cases;
}

Counts counts_of(const DrillReport& report) {
  Counts counts;
  for (const Case* one : all_cases(report)) {
    ++counts.cases;
    switch (verdict_of(*one)) {
      case Verdict::kHolds: ++counts.holding; break;
      case Verdict::kSkipped: ++counts.skipped; break;
      case Verdict::kFails:
        ++counts.failing;
        if (one->outcome == Outcome::kNotRecorded) ++counts.not_recorded;
    }
  }
  return counts;
}

std::string verdict_sentence(const DrillReport& report) {
  if (!report.skipped.empty()) return "skipped: " + printable(report.skipped);
  const Counts counts = counts_of(report);
  const std::uint64_t judged = counts.cases - counts.skipped;
  std::string text;
  if (judged == 0) {
    text = "no case was run";
  } else if (counts.failing == 0) {
    text = judged == 1 ? "the one case is as expected"
                       : "all " + std::to_string(judged) + " cases are as expected";
  } else {
    text = std::to_string(counts.failing) + " of " + counted(judged, "case", "cases") +
           (counts.failing == 1 ? " is" : " are") + " not as expected";
  }
  if (counts.skipped > 0) text += ", " + std::to_string(counts.skipped) + " skipped";
  if (report.left_out > 0)
    text += "; " + std::to_string(report.left_out) + " more were generated beyond the budget";
  return text;
}

std::vector<std::string> complaints_of(const Case& one) {
  std::vector<std::string> texts = one.reasons;
  // A reason often quotes what is also a fact of its own.
  const auto add = [&](std::string_view title, const std::string& text) {
    const bool is_told =
        text.empty() ||
        std::any_of(one.reasons.begin(), one.reasons.end(), [&text](const std::string& reason) {
          return reason.find(text) != std::string::npos;
        });
    if (!is_told) texts.push_back(std::string(title) + text);
  };
  add("", one.note);
  if (verdict_of(one) != Verdict::kFails) return texts;
  if (one.check.ran && !one.check.agrees) add("the check says: ", one.check.text);
  for (const std::string& leaked : one.leaked) add("left behind: ", leaked);
  for (const std::string& problem : one.problems) add("unreadable: ", problem);
  return texts;
}

std::string text_or_dash(const std::optional<std::uint64_t>& duration_ns) {
  return duration_ns ? duration_text(*duration_ns) : "-";
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return printable(text);
}

}  // namespace sabot::drill::report
