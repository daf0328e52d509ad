// Evidence into sentences and a status.
#include "launch/ending.hpp"

#include <algorithm>
#include <set>

#include "launch/control/desk.hpp"
#include "run/read/attach_reader.hpp"
#include "run/read/tally_reader.hpp"
#include "scenario/explain.hpp"
#include "scenario/tally.hpp"

namespace sabot::launch {
namespace {

std::string tag_of(const run::AttachRecord& record) {
  return record.host + "." + std::to_string(record.pid);
}

// HOST.PID from HOST.PID or HOST.PID.N, where N tells apart processes that had the same id.
bool belongs_to(const run::TallyRecord& tally, const std::set<std::string>& tags) {
  if (tags.contains(tally.tag)) return true;
  return tags.contains(tally.tag.substr(0, tally.tag.rfind('.')));
}

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

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

// Returns the tags of the processes that this launcher started.
std::set<std::string> gather_attached(const std::vector<run::AttachRecord>& records,
                                      const std::string& launcher, Evidence& evidence) {
  std::set<std::string> tags;
  for (const run::AttachRecord& record : records) {
    if (record.attached) ++evidence.run.attached;
    if (record.launcher != launcher) continue;
    tags.insert(tag_of(record));
    if (record.attached)
      ++evidence.here.attached;
    else
      evidence.not_attached.push_back("process " + tag_of(record) + " (" + record.command_line +
                                      "): " + record.reason);
  }
  return tags;
}

std::uint64_t count_fired(const Evidence& evidence) {
  return static_cast<std::uint64_t>(
      std::count_if(evidence.faults.begin(), evidence.faults.end(),
                    [](const FaultEvidence& fault) { return fault.fired > 0; }));
}

// A firing of the run's own faults has a line, and a second one, which says why, if it did nothing.
FaultEvidence evidence_of(const run::JournalContent& journal, const std::string& fault) {
  FaultEvidence evidence{fault, 0, ""};
  std::uint64_t refused = 0;
  for (const run::JournalLine& line : journal.lines) {
    if (line.injection > 0 || line.fault != fault) continue;
    ++(line.refused.empty() ? evidence.fired : refused);
    if (!line.refused.empty())
      evidence.explanation = "fault \"" + fault + "\" fired, but did nothing: " + line.refused;
  }
  evidence.fired -= std::min(evidence.fired, refused);
  return evidence;
}

std::string counts_text(const Presence& presence) {
  return plural(presence.attached, "process attached", "processes attached") + ", " +
         plural(presence.calls_seen, "call seen", "calls seen");
}

std::string whole_run_line(const Evidence& evidence, std::uint64_t fired) {
  std::string line = "run ended: " + counts_text(evidence.run) + ", faults planned " +
                     std::to_string(evidence.faults.size()) + ", fired " + std::to_string(fired);
  if (evidence.firings > fired) line += " (" + std::to_string(evidence.firings) + " times)";
  if (evidence.injected > 0)
    line += ", and " + plural(evidence.injected, "firing", "firings") + " injected by the program";
  return line;
}

std::string part_line(const Evidence& evidence) {
  return "this part of the run ended: " + counts_text(evidence.here) + "; " +
         plural(evidence.launchers_left, "other launcher is", "other launchers are") +
         " at work in the run folder, and the last one reports on the faults";
}

// The faults that `sabot ctl add` brought.
void gather_added(const std::string& run_folder, const run::JournalContent& journal,
                  Evidence& evidence) {
  for (const scenario::Scenario& added : control::added_scenarios(run_folder, evidence.problems)) {
    for (const scenario::Fault& one : added.faults) {
      FaultEvidence fault = evidence_of(journal, one.name);
      if (fault.fired == 0 && fault.explanation.empty())
        fault.explanation = "fault \"" + one.name + "\", added to the run, did not fire";
      evidence.faults.push_back(std::move(fault));
    }
  }
}

}  // namespace

Evidence gather_evidence(const std::string& run_folder, const Plan& plan,
                         const std::string& launcher) {
  Evidence evidence;
  const std::set<std::string> tags =
      gather_attached(run::read_attach_records(run_folder, evidence.problems), launcher, evidence);
  const auto tallies = run::read_tallies(run_folder, evidence.problems);
  std::uint64_t counted = 0;
  for (const run::TallyRecord& tally : tallies) {
    evidence.run.calls_seen += tally.calls_seen;
    if (belongs_to(tally, tags)) evidence.here.calls_seen += tally.calls_seen;
    counted += tally.faults_fired;
  }
  const run::JournalContent journal = run::read_journals(run_folder);
  evidence.problems.insert(evidence.problems.end(), journal.problems.begin(),
                           journal.problems.end());
  std::uint64_t proven = 0;
  std::uint64_t refused = 0;
  for (const run::JournalLine& line : journal.lines) {
    proven += line.refused.empty() ? 1 : 0;
    if (line.injection == 0) ++(line.refused.empty() ? evidence.firings : refused);
    if (line.injection > 0 && line.refused.empty()) ++evidence.injected;
  }
  evidence.firings -= std::min(evidence.firings, refused);
  evidence.firings_unproven = counted > proven ? counted - proven : 0;

  const std::vector<scenario::Fault>& faults = plan.scenario.faults;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    FaultEvidence fault = evidence_of(journal, faults[i].name);
    if (fault.fired == 0 && fault.explanation.empty())
      fault.explanation =
          scenario::explain_unfired(faults[i], merged_tally(tallies, i, faults.size()));
    evidence.faults.push_back(std::move(fault));
  }
  gather_added(run_folder, journal, evidence);
  return evidence;
}

Conclusion conclude(const Evidence& evidence, const Ending& ending, bool require_fired) {
  const bool is_last = evidence.launchers_left == 0;
  const std::uint64_t fired = count_fired(evidence);
  const bool nothing_attached = evidence.here.attached == 0 && !evidence.not_attached.empty();

  Conclusion conclusion;
  conclusion.status = ending.shell_status();
  if (conclusion.status == 0 && nothing_attached) conclusion.status = kStatusNothingAttached;
  if (conclusion.status == 0 && require_fired && is_last && fired < evidence.faults.size())
    conclusion.status = kStatusNotFired;
  conclusion.is_failure_of_ours = ending.shell_status() == 0 && conclusion.status != 0;

  conclusion.lines.push_back(is_last ? whole_run_line(evidence, fired) : part_line(evidence));
  for (const FaultEvidence& fault : evidence.faults)
    if (fault.fired == 0 && is_last) conclusion.lines.push_back(fault.explanation);
  if (evidence.firings_unproven > 0)
    conclusion.lines.push_back(plural(evidence.firings_unproven, "firing", "firings") +
                               " left no line in the journal");
  for (const std::string& process : evidence.not_attached)
    conclusion.lines.push_back((nothing_attached ? "nothing was attached: " : "not attached: ") +
                               process);
  for (const std::string& problem : evidence.problems) conclusion.lines.push_back(problem);
  return conclusion;
}

}  // namespace sabot::launch
