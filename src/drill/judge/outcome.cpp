// What became of the job: the first of these that holds, from "cannot be told" to "all is well".
#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/units.hpp"
#include "drill/judge/parts.hpp"
#include "scenario/act.hpp"

namespace sabot::drill {
namespace {

constexpr int kNothingAttached = 3;  // of `sabot run`
constexpr int kSignalBase = 128;

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : "; ") + text;
  return out;
}

std::string signal_text(int signal) {
  const char* const name = ::strsignal(signal);
  return "signal " + std::to_string(signal) +
         (name == nullptr ? "" : " (" + std::string(name) + ")");
}

// Why there is nothing to judge; "" if there is.
std::string unrecorded_text(const Evidence& evidence) {
  const Ending& ending = evidence.ending;
  if (!ending.problem.empty()) return ending.problem;
  if (ending.stop == Stop::kInterrupted) return "the drill was ended while this case ran";
  if (!evidence.disk_problem.empty()) return "could not record: " + evidence.disk_problem;
  if (!evidence.made_run) {
    const std::string last = evidence.log_tail.empty() ? "" : evidence.log_tail.back();
    return "could not start: " + (last.empty() ? status_text(ending, 0) : last);
  }
  if (evidence.firings_unproven > 0)
    return "could not record: " + std::to_string(evidence.firings_unproven) +
           " firings left no line in the journal";
  if (!evidence.problems.empty()) return "could not read the record: " + evidence.problems.front();
  const bool is_attached =
      std::any_of(evidence.attached.begin(), evidence.attached.end(),
                  [](const run::AttachRecord& record) { return record.attached; });
  if (!is_attached && ending.exit_status == kNothingAttached)
    return "Sabot could not get into the job; the reason is in the output";
  return "";
}

// The fault may be that very signal; then it is no sign of a job out of control.
bool is_injected(const Evidence& evidence, int signal) {
  const auto raises = [signal](const scenario::Fault& fault) {
    if (fault.action.kind != scenario::ActionKind::kCrash) return false;
    const scenario::Act act = scenario::act_of(fault.action);
    if (act.crash == scenario::CrashKind::kAbort) return signal == SIGABRT;
    return act.crash == scenario::CrashKind::kSignal && act.crash_value == signal;
  };
  const std::vector<const run::JournalLine*> firings = firings_of(evidence);
  return std::any_of(evidence.scenario.faults.begin(), evidence.scenario.faults.end(),
                     [&](const scenario::Fault& fault) {
                       return raises(fault) && std::any_of(firings.begin(), firings.end(),
                                                           [&fault](const run::JournalLine* line) {
                                                             return line->fault == fault.name;
                                                           });
                     });
}

bool was_told(const RankSeen& rank) {
  return rank.how == "error" || rank.how == "async error" || rank.how == "abort";
}

Verdict after_success(const Evidence& evidence, const Case& one) {
  if (evidence.check.ran && !evidence.check.agrees)
    return {Outcome::kWrongResult,
            "it ended with status 0, and the check does not agree: " + evidence.check.text};
  const auto told = std::find_if(one.ranks.begin(), one.ranks.end(), was_told);
  if (one.attempts > 1)
    return {Outcome::kRecovers,
            "attempt " + std::to_string(one.attempts - 1) + " ended with status 0"};
  if (told != one.ranks.end())
    return {Outcome::kRecovers,
            "rank " + std::to_string(told->rank) +
                (told->code.empty() ? " aborted a comm" : " was given " + told->code) +
                ", and the job ended with status 0"};
  return {Outcome::kCompletes, "it ended with status 0, and nobody was given an error"};
}

}  // namespace

int signal_of(const Ending& ending) {
  if (ending.signal != 0) return ending.signal;
  const int signal = ending.exit_status - kSignalBase;
  return signal > 0 && signal < NSIG ? signal : 0;
}

std::string status_text(const Ending& ending, std::uint64_t deadline_ns) {
  if (!ending.started) return "not started";
  switch (ending.stop) {
    case Stop::kDeadline: return "ended at the deadline of " + format_duration_ns(deadline_ns);
    case Stop::kOutput: return "ended because it printed without end";
    case Stop::kInterrupted: return "ended with the drill";
    case Stop::kNone: break;
  }
  if (const int signal = signal_of(ending); signal != 0) return signal_text(signal);
  return "exit status " + std::to_string(ending.exit_status);
}

Verdict outcome_of(const Evidence& evidence, const Case& one) {
  const Ending& ending = evidence.ending;
  if (std::string why = unrecorded_text(evidence); !why.empty())
    return {Outcome::kNotRecorded, std::move(why)};
  if (ending.stop == Stop::kDeadline)
    return {Outcome::kHangs, "it had not ended after " + format_duration_ns(evidence.deadline_ns) +
                                 (ending.stuck.empty() ? "" : ": " + joined(ending.stuck))};
  if (ending.stop == Stop::kOutput) return {Outcome::kHangs, "it printed without end"};
  if (!ending.leaked.empty())
    return {Outcome::kDiesDirty, "it left behind: " + joined(ending.leaked)};
  const int signal = signal_of(ending);
  if (signal != 0 && !is_injected(evidence, signal))
    return {Outcome::kDiesDirty, "it was ended by " + signal_text(signal)};
  if (ending.exit_status == 0 && signal == 0) return after_success(evidence, one);
  return {Outcome::kFailsCleanly,
          "it ended by itself with " + status_text(ending, 0) + " and left nothing behind"};
}

}  // namespace sabot::drill
