// Reading a run folder, an output, and the state of the disk.
#include "drill/judge/gather.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include "base/text.hpp"
#include "base/units.hpp"
#include "drill/plan/pattern.hpp"
#include "run/read/attach_reader.hpp"
#include "run/read/tally_reader.hpp"
#include "scenario/explain.hpp"
#include "scenario/tally.hpp"

namespace sabot::drill {
namespace {

constexpr std::uint64_t kTailBytesMax = 64 * 1024;
constexpr std::size_t kTailLineMax = 500;
constexpr std::uint64_t kRoomBytesMin = 64 * 1024;
constexpr std::size_t kLineBytesMax = 64 * 1024;

scenario::FaultTally merged_tally(const std::vector<run::TallyRecord>& tallies, std::size_t index,
                                  std::size_t fault_count) {
  scenario::FaultTally merged{};
  for (const run::TallyRecord& tally : tallies) {
    scenario::FaultTally one{};
    // Another number of faults is another plan, of a run within this one.
    if (tally.fault_count == fault_count && tally.slot(index, one)) scenario::merge(merged, one);
  }
  return merged;
}

void gather_faults(Evidence& evidence) {
  const std::vector<run::TallyRecord> tallies =
      run::read_tallies(evidence.run_folder, evidence.problems);
  std::uint64_t counted = 0;
  for (const run::TallyRecord& tally : tallies) counted += tally.faults_fired;
  const auto proven = static_cast<std::uint64_t>(
      std::count_if(evidence.journal.begin(), evidence.journal.end(),
                    [](const run::JournalLine& line) { return line.refused.empty(); }));
  evidence.firings_unproven = counted > proven ? counted - proven : 0;
  const std::vector<scenario::Fault>& faults = evidence.scenario.faults;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const bool fired =
        std::any_of(evidence.journal.begin(), evidence.journal.end(),
                    [&](const run::JournalLine& line) { return line.fault == faults[i].name; });
    evidence.why_unfired.push_back(
        fired ? "" : scenario::explain_unfired(faults[i], merged_tally(tallies, i, faults.size())));
  }
}

// What a case prints must not decide how long it takes to judge it.
template <typename Take>
Status for_each_line(const std::string& path, Take take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error(Code::kNotFound, "cannot read '" + path + "'");
  for (std::string line; std::getline(file, line);) {
    if (line.size() > kLineBytesMax) line.resize(kLineBytesMax);
    take(line);
  }
  return {};
}

struct Printed {
  std::uint64_t last = 0;
  std::uint64_t highest = 0;
  std::uint64_t repeated = 0;
};

std::map<std::string, Printed> steps_by_key(const std::vector<std::vector<std::string>>& matches) {
  std::map<std::string, Printed> by_key;
  for (const std::vector<std::string>& parts : matches) {
    std::uint64_t step = 0;
    const char* const end = parts[0].data() + parts[0].size();
    const auto [stop, error] = std::from_chars(parts[0].data(), end, step);
    if (error != std::errc{} || stop != end) continue;
    const auto [entry, is_new] = by_key.try_emplace(parts.size() > 1 ? parts[1] : "");
    Printed& printed = entry->second;
    if (!is_new && step <= printed.last) printed.repeated += printed.last - step + 1;
    printed.last = step;
    printed.highest = std::max(printed.highest, step);
  }
  return by_key;
}

std::string text_of(const std::vector<std::string>& parts) {
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return "'" + join(views, " ") + "'";
}

}  // namespace

std::vector<std::string> tail_of(const std::string& path, std::size_t lines_max) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
  const std::uint64_t from = size > kTailBytesMax ? size - kTailBytesMax : 0;
  file.seekg(static_cast<std::streamoff>(from));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.size() > kTailLineMax) line = line.substr(0, kTailLineMax) + "…";
    lines.push_back(std::move(line));
  }
  if (from > 0 && !lines.empty()) lines.erase(lines.begin());  // it began somewhere
  if (lines.size() > lines_max)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(lines_max));
  return lines;
}

std::string disk_problem_of(const std::string& path) {
  struct statvfs facts {};
  if (::statvfs(path.c_str(), &facts) != 0) return "";
  const std::uint64_t free_bytes = std::uint64_t{facts.f_bavail} * facts.f_frsize;
  if (free_bytes < kRoomBytesMin)
    return "the disk of '" + path + "' is full (" + format_bytes(free_bytes) + " left)";
  if (facts.f_files > 0 && facts.f_favail == 0)
    return "the disk of '" + path + "' has no room for another file";
  return "";
}

Result<std::vector<std::vector<std::string>>> matches_in(const Pattern& pattern,
                                                         const Places& places) {
  const Matcher matcher = SABOT_TRY(Matcher::compile(pattern.regex));
  const std::string path =
      pattern.source == "stdout" ? places.mine.output() : filled_in(pattern.source, places);
  std::vector<std::vector<std::string>> out;
  SABOT_TRY(for_each_line(path, [&](const std::string& line) {
    if (std::optional<std::vector<std::string>> parts = matcher.match(line))
      out.push_back(std::move(*parts));
  }));
  return out;
}

std::optional<std::uint64_t> steps_lost_of(const std::vector<std::vector<std::string>>& mine,
                                           const std::vector<std::vector<std::string>>& baseline) {
  const std::map<std::string, Printed> of_baseline = steps_by_key(baseline);
  const std::map<std::string, Printed> of_mine = steps_by_key(mine);
  if (of_mine.empty()) return std::nullopt;
  std::uint64_t most = 0;
  for (const auto& [key, printed] : of_mine) {
    const auto whole = of_baseline.find(key);
    const std::uint64_t last = whole == of_baseline.end() ? 0 : whole->second.highest;
    const std::uint64_t never_done = last > printed.highest ? last - printed.highest : 0;
    most = std::max(most, printed.repeated + never_done);
  }
  return most;
}

Check compare_matches(std::vector<std::vector<std::string>> mine,
                      std::vector<std::vector<std::string>> baseline) {
  if (baseline.empty()) return {false, false, "the baseline printed nothing that matches"};
  std::sort(mine.begin(), mine.end());
  std::sort(baseline.begin(), baseline.end());
  if (mine == baseline)
    return {true, true, std::to_string(mine.size()) + " results as in the baseline"};
  std::vector<std::vector<std::string>> missing, surplus;
  std::set_difference(baseline.begin(), baseline.end(), mine.begin(), mine.end(),
                      std::back_inserter(missing));
  std::set_difference(mine.begin(), mine.end(), baseline.begin(), baseline.end(),
                      std::back_inserter(surplus));
  std::string text;
  if (!missing.empty()) text += "the baseline has " + text_of(missing.front());
  if (!surplus.empty())
    text += (text.empty() ? "" : ", ") + ("this run has " + text_of(surplus.front()));
  const std::size_t differences = std::max(missing.size(), surplus.size());
  if (differences > 1) text += "; " + std::to_string(differences) + " results differ";
  return {true, false, text};
}

namespace {

// Without a baseline only what was done again is known.
std::optional<std::uint64_t> gather_steps(const Pattern& progress, const Places& places) {
  const auto mine = matches_in(progress, places);
  if (!mine.ok()) return std::nullopt;
  const auto baseline = matches_in(progress, {places.baseline, places.baseline});
  return steps_lost_of(*mine, baseline.ok() ? *baseline : std::vector<std::vector<std::string>>());
}

}  // namespace

Evidence gather(const PlannedCase& planned, const Plan& plan, const Places& places,
                const CaseFolder::Finished& finished) {
  Evidence evidence;
  evidence.name = planned.name;
  evidence.scenario = planned.scenario;
  if (planned.states_expectation) evidence.expected = expected_of(planned.expect);
  evidence.deadline_ns = planned.deadline_ns;
  evidence.run_folder = places.mine.run();
  std::vector<std::string> replay{"sabot", "run"};
  if (!planned.scenario.faults.empty()) {
    evidence.scenario_file = places.mine.scenario();
    replay.insert(replay.end(), {"--scenario", evidence.scenario_file});
  }
  if (!plan.engine.empty()) replay.insert(replay.end(), {"--engine", plan.engine});
  replay.push_back("--");
  replay.insert(replay.end(), plan.command.begin(), plan.command.end());
  evidence.replay = shell_text(replay);

  evidence.ending = finished.ending;
  evidence.check = finished.check;
  evidence.has_check = plan.check.exists();
  evidence.made_run = ::access((evidence.run_folder + "/config.json").c_str(), F_OK) == 0;
  run::JournalContent journal = run::read_journals(evidence.run_folder);
  evidence.journal = std::move(journal.lines);
  evidence.problems = std::move(journal.problems);
  run::ObservationContent seen = run::read_observations(evidence.run_folder);
  evidence.seen = std::move(seen.lines);
  evidence.problems.insert(evidence.problems.end(), seen.problems.begin(), seen.problems.end());
  evidence.attached = run::read_attach_records(evidence.run_folder, evidence.problems);
  gather_faults(evidence);
  evidence.log_tail = tail_of(places.mine.output(), kTailLinesMax);
  if (plan.progress) evidence.steps_lost = gather_steps(*plan.progress, places);
  return evidence;
}

}  // namespace sabot::drill
