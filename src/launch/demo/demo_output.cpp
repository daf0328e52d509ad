// Reading and judging the demo's output.
#include "launch/demo/demo_output.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.hpp"

namespace sabot::launch {
namespace {

template <typename T>
bool read_number(std::string_view word, T& number) {
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  return error == std::errc{} && stop == end && !word.empty();
}

std::string place_of(const ProgramLine& line) {
  return "rank " + std::to_string(line.rank) + " call " + std::to_string(line.call);
}

bool reports(const ProgramLine& line, const run::JournalLine& firing) {
  return line.rank == firing.rank && line.call == firing.nth && line.function == firing.function &&
         line.error == firing.code && line.text.find(firing.fault) != line.text.npos;
}

const ProgramLine* last_of(const std::vector<ProgramLine>& lines, int rank) {
  const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                 [rank](const ProgramLine& line) { return line.rank == rank; });
  return last == lines.rend() ? nullptr : &*last;
}

std::string expected_sum(const DemoShape& shape, std::uint64_t call) {
  return std::to_string(shape.ranks * (shape.ranks - 1) / 2 + shape.ranks * call);
}

// Sums that were printed at all have to be right, in a broken run too: no wrong data as success.
void complain_about_sums(const std::vector<ProgramLine>& lines, const DemoShape& shape,
                         std::vector<std::string>& complaints) {
  for (const ProgramLine& line : lines)
    if (line.ok && line.sum != expected_sum(shape, line.call))
      complaints.push_back(place_of(line) + " shows the sum " + line.sum + ", not " +
                           expected_sum(shape, line.call));
}

void judge_others(const std::vector<ProgramLine>& lines, const DemoShape& shape,
                  BrokenVerdict& verdict) {
  std::set<int> hit;
  for (const ProgramLine& line : verdict.hit) hit.insert(line.rank);
  for (int rank = 0; rank < static_cast<int>(shape.ranks); ++rank) {
    if (hit.contains(rank)) continue;
    const ProgramLine* const last = last_of(lines, rank);
    if (last == nullptr) {
      verdict.complaints.push_back("rank " + std::to_string(rank) + " reported nothing");
      continue;
    }
    verdict.others.push_back(*last);
    // A collective that one rank did not join cannot have succeeded on another.
    if (last->ok)
      verdict.complaints.push_back(place_of(*last) +
                                   " is the last of its rank and reports success");
  }
}

}  // namespace

std::optional<ProgramLine> parse_program_line(std::string_view line) {
  const std::vector<std::string_view> words = split(trim(line), ' ');
  ProgramLine parsed;
  if (words.size() < 6 || words[0] != "rank" || words[2] != "call") return std::nullopt;
  if (!read_number(words[1], parsed.rank) || !read_number(words[3], parsed.call))
    return std::nullopt;
  parsed.function = std::string(words[4]);
  if (words[5] == "ok") {
    constexpr std::string_view kSum = "sum=";
    if (words.size() != 7 || !words[6].starts_with(kSum)) return std::nullopt;
    parsed.ok = true;
    parsed.sum = std::string(words[6].substr(kSum.size()));
    return parsed;
  }
  if (words[5] != "error" || words.size() < 7) return std::nullopt;
  parsed.error = std::string(words[6]);
  const std::size_t text = line.find("): ");
  if (text != line.npos) parsed.text = std::string(trim(line.substr(text + 3)));
  return parsed;
}

std::vector<std::string> judge_clean(const std::vector<ProgramLine>& lines,
                                     const DemoShape& shape) {
  if (lines.empty()) return {"no rank reported anything"};
  std::vector<std::string> complaints;
  complain_about_sums(lines, shape, complaints);
  for (const ProgramLine& line : lines)
    if (!line.ok) complaints.push_back(place_of(line) + " reports " + line.error);
  for (std::uint64_t rank = 0; rank < shape.ranks; ++rank) {
    for (std::uint64_t call = 1; call <= shape.calls; ++call) {
      const auto count = std::count_if(lines.begin(), lines.end(), [&](const ProgramLine& line) {
        return line.rank == static_cast<int>(rank) && line.call == call;
      });
      if (count != 1)
        complaints.push_back("rank " + std::to_string(rank) + " call " + std::to_string(call) +
                             " was reported " + std::to_string(count) + " times, not once");
    }
  }
  return complaints;
}

BrokenVerdict judge_broken(const std::vector<ProgramLine>& lines, const DemoShape& shape,
                           const scenario::Scenario& scenario,
                           const std::vector<run::JournalLine>& journal) {
  BrokenVerdict verdict;
  verdict.planned = scenario.faults.size();
  verdict.fired = journal.size();
  complain_about_sums(lines, shape, verdict.complaints);
  for (const scenario::Fault& fault : scenario.faults)
    if (std::none_of(journal.begin(), journal.end(),
                     [&](const run::JournalLine& firing) { return firing.fault == fault.name; }))
      verdict.complaints.push_back("the journal has no line of fault \"" + fault.name + "\"");
  for (const run::JournalLine& firing : journal) {
    const auto report = std::find_if(
        lines.begin(), lines.end(), [&](const ProgramLine& line) { return reports(line, firing); });
    if (report != lines.end())
      verdict.hit.push_back(*report);
    else
      verdict.complaints.push_back("rank " + std::to_string(firing.rank) + " did not report the " +
                                   firing.code + " that the journal proves");
  }
  verdict.seen = verdict.hit.size();
  judge_others(lines, shape, verdict);
  return verdict;
}

std::string BrokenVerdict::summary() const {
  std::string text = "planned " + std::to_string(planned) + ", fired " + std::to_string(fired) +
                     ", seen by the application " + std::to_string(seen);
  if (hit.empty()) return text;
  return text + " (" + hit[0].error + ", rank " + std::to_string(hit[0].rank) + ", " +
         hit[0].function + ", call " + std::to_string(hit[0].call) + ")";
}

}  // namespace sabot::launch
