// Putting the parts together.
#include "drill/judge/judge.hpp"

#include <algorithm>

#include "drill/judge/parts.hpp"
#include "scenario/print.hpp"

namespace sabot::drill {
namespace {

std::string outcomes_text(const Expected& expected) {
  std::string text;
  for (const Outcome outcome : expected.outcomes)
    text += (text.empty() ? "" : "|") + std::string(word_of(outcome));
  return text.empty() ? "completes|recovers|fails-cleanly" : text;
}

void fill_facts(const Evidence& evidence, Case& one) {
  one.name = evidence.name;
  one.scenario = evidence.scenario.name;
  one.scenario_file = evidence.scenario_file;
  one.run_folder = evidence.run_folder;
  if (!evidence.scenario.faults.empty()) one.faults_line = scenario::to_line(evidence.scenario);
  one.expected = outcomes_text(evidence.expected);
  one.started_ns = evidence.ending.started_ns;
  one.finished_ns = evidence.ending.finished_ns;
  one.deadline_ns = evidence.deadline_ns;
  one.check = evidence.check;
  one.steps_lost = evidence.steps_lost;
  one.exit_status = evidence.ending.exit_status;
  one.status_text = status_text(evidence.ending, evidence.deadline_ns);
  one.leaked = evidence.ending.leaked;
  one.problems = evidence.problems;
  one.log_tail = evidence.log_tail;
  one.replay = evidence.replay;
}

std::optional<std::uint64_t> last_detection(const std::vector<RankSeen>& ranks) {
  std::optional<std::uint64_t> last;
  for (const RankSeen& rank : ranks)
    if (!rank.how.empty()) last = std::max(last.value_or(0), rank.after_fault_ns);
  return last;
}

}  // namespace

Case judge(const Evidence& evidence) {
  Case one;
  fill_facts(evidence, one);
  one.faults = faults_seen(evidence);
  for (const FaultSeen& fault : one.faults)
    if (fault.first_ns != 0 && (one.fault_ns == 0 || fault.first_ns < one.fault_ns))
      one.fault_ns = fault.first_ns;
  one.ranks = ranks_seen(evidence, one.fault_ns);
  one.attempts = attempts_of(evidence);
  one.detection_ns = last_detection(one.ranks);
  one.events = events_of(evidence);
  const Verdict verdict = outcome_of(evidence, one);
  one.outcome = verdict.outcome;
  if (one.outcome == Outcome::kNotRecorded) one.note = verdict.note;
  if (one.outcome == Outcome::kRecovers) one.recovery_ns = recovery_of(evidence, one.fault_ns);
  one.requirements = requirements_of(evidence, one, verdict.note);
  one.holds = true;
  for (const Requirement& requirement : one.requirements) {
    if (requirement.holds) continue;
    one.holds = false;
    one.reasons.push_back(requirement.reason);
  }
  return one;
}

}  // namespace sabot::drill
