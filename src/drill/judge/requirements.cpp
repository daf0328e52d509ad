// What was expected, one by one, and a sentence for each that did not come true.
#include <algorithm>

#include "base/units.hpp"
#include "drill/judge/parts.hpp"

namespace sabot::drill {
namespace {

std::string counted(std::uint64_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

class Requirements {
 public:
  Requirements(const Evidence& evidence, const Case& one, const std::string& why)
      : evidence_(evidence), one_(one), why_(why) {}

  std::vector<Requirement> all() {
    outcome();
    // Of a run that left no record nothing else can be told.
    if (one_.outcome == Outcome::kNotRecorded) return std::move(out_);
    for (const FaultSeen& fault : one_.faults) fired(fault);
    const Expected& expected = evidence_.expected;
    if (expected.detected_within_ns) detected(*expected.detected_within_ns);
    if (expected.finished_within_ns) finished(*expected.finished_within_ns);
    if (expected.attempts)
      number("attempts", *expected.attempts, one_.attempts,
             "the job was started " + counted(one_.attempts, "time"));
    if (expected.steps_lost) steps_lost(*expected.steps_lost);
    if (expected.check.value_or(evidence_.has_check)) check();
    return std::move(out_);
  }

 private:
  void add(std::string what, std::string expected, std::string observed, std::string reason) {
    const bool holds = reason.empty();
    out_.push_back(
        {std::move(what), std::move(expected), std::move(observed), holds, std::move(reason)});
  }

  void outcome() {
    const std::vector<Outcome>& wanted = evidence_.expected.outcomes;
    const bool is_good =
        wanted.empty()
            ? one_.outcome == Outcome::kCompletes || one_.outcome == Outcome::kRecovers ||
                  one_.outcome == Outcome::kFailsCleanly
            : std::find(wanted.begin(), wanted.end(), one_.outcome) != wanted.end();
    const std::string observed(word_of(one_.outcome));
    add("outcome", one_.expected, observed,
        is_good ? "" : "expected " + one_.expected + ", but the job " + verb() + ": " + why_);
  }

  std::string verb() const {
    switch (one_.outcome) {
      case Outcome::kFailsCleanly: return "fails cleanly";
      case Outcome::kDiesDirty: return "dies dirty";
      case Outcome::kWrongResult: return "ends with a wrong result";
      case Outcome::kNotRecorded: return "cannot be judged";
      default: return std::string(word_of(one_.outcome));
    }
  }

  // C19: a test that never broke anything is no test.
  void fired(const FaultSeen& fault) {
    const std::vector<scenario::ExpectedFirings>& stated = evidence_.expected.fired;
    const auto entry = std::find_if(
        stated.begin(), stated.end(),
        [&fault](const scenario::ExpectedFirings& one) { return one.fault == fault.name; });
    const bool is_stated = entry != stated.end();
    const bool holds = is_stated ? fault.fired_count == entry->count : fault.fired_count > 0;
    std::string reason;
    if (!holds && fault.fired_count == 0) {
      reason = fault.why_not.empty() ? "fault \"" + fault.name + "\" did not fire" : fault.why_not;
      if (!fault.refused.empty()) reason = "fault \"" + fault.name + "\" did nothing: " + reason;
    } else if (!holds) {
      reason = "fault \"" + fault.name + "\" fired " + counted(fault.fired_count, "time") +
               ", not " + std::to_string(entry->count);
    }
    add("fired " + fault.name, is_stated ? std::to_string(entry->count) : "1 or more",
        std::to_string(fault.fired_count), std::move(reason));
  }

  // Every rank has to know, not only the quickest.
  void detected(std::uint64_t limit_ns) {
    const std::string expected = format_duration_ns(limit_ns) + " or less";
    const std::string what = "detected_within";
    if (one_.fault_ns == 0)
      return add(what, expected, "no fault fired",
                 "no fault fired, so there was nothing to detect");
    const auto silent = std::find_if(one_.ranks.begin(), one_.ranks.end(),
                                     [](const RankSeen& rank) { return rank.how.empty(); });
    if (silent != one_.ranks.end())
      return add(what, expected, "never on rank " + std::to_string(silent->rank),
                 "rank " + std::to_string(silent->rank) + " never learned of the fault");
    if (one_.ranks.empty())
      return add(what, expected, "no rank is known", "no rank of the job is known");
    const auto last = std::max_element(
        one_.ranks.begin(), one_.ranks.end(),
        [](const RankSeen& a, const RankSeen& b) { return a.after_fault_ns < b.after_fault_ns; });
    const std::string time = format_duration_ns(last->after_fault_ns);
    add(what, expected, "rank " + std::to_string(last->rank) + " after " + time,
        last->after_fault_ns <= limit_ns
            ? ""
            : "rank " + std::to_string(last->rank) + " learned of the fault after " + time + " (" +
                  last->how + "), later than " + format_duration_ns(limit_ns));
  }

  void finished(std::uint64_t limit_ns) {
    const std::string time = format_duration_ns(one_.duration_ns());
    add("finished_within", format_duration_ns(limit_ns) + " or less", time,
        one_.duration_ns() <= limit_ns
            ? ""
            : "the job took " + time + ", longer than " + format_duration_ns(limit_ns));
  }

  void number(const char* what, const scenario::NumberSet& wanted, std::uint64_t observed,
              const std::string& sentence) {
    const std::string expected = wanted.to_string(scenario::NumberStyle::kPlain);
    add(what, expected, std::to_string(observed),
        wanted.contains(observed) ? "" : sentence + ", expected " + expected);
  }

  void steps_lost(const scenario::NumberSet& wanted) {
    if (one_.steps_lost)
      return number("steps_lost", wanted, *one_.steps_lost,
                    counted(*one_.steps_lost, "step") + " of the job were lost");
    add("steps_lost", wanted.to_string(scenario::NumberStyle::kPlain), "unknown",
        "how many steps were lost is not known: no line of the job matches 'progress'");
  }

  // A job that failed has no result to be checked, unless somebody says that it must have.
  void check() {
    const bool ended_well =
        one_.outcome == Outcome::kCompletes || one_.outcome == Outcome::kRecovers;
    if (!one_.check.ran && !ended_well && !evidence_.expected.check) return;
    const bool wanted = evidence_.expected.check.value_or(true);
    const auto word = [](bool agrees) { return agrees ? "agrees" : "does not agree"; };
    if (!one_.check.ran)
      return add("check", word(wanted), "did not run",
                 "the check did not run: " +
                     (one_.check.text.empty() ? "the job has no result" : one_.check.text));
    add("check", word(wanted), word(one_.check.agrees),
        one_.check.agrees == wanted
            ? ""
            : std::string("the check ") + word(one_.check.agrees) + ": " + one_.check.text);
  }

  const Evidence& evidence_;
  const Case& one_;
  const std::string& why_;
  std::vector<Requirement> out_;
};

}  // namespace

std::vector<Requirement> requirements_of(const Evidence& evidence, const Case& one,
                                         const std::string& why) {
  return Requirements(evidence, one, why).all();
}

}  // namespace sabot::drill
