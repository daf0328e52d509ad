// What the job is expected to do, and which expectations no job can meet together.
//
// A drill that cannot hold would be blamed on the job; it is refused before anything runs.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "scenario/print.hpp"
#include "scenario/read/builder.hpp"
#include "scenario/read/field.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::string_view kPrefix = "expect.";

class ExpectationBuilder {
 public:
  ExpectationBuilder(const Value& table, const Scenario& scenario, Diagnostics& diagnostics)
      : table_(table), scenario_(scenario), diagnostics_(diagnostics) {}

  Expectation build() {
    std::array<std::string_view, 7> keys;
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = expect_rows()[i].key;
    refuse_unknown_keys(table_, kPrefix, keys, diagnostics_);
    if (const Member* outcome = table_.find("outcome")) build_outcomes(field(*outcome));
    expect_.detected_within_ns = duration("detected_within");
    expect_.finished_within_ns = duration("finished_within");
    if (const Member* fired = table_.find("fired")) build_fired(field(*fired));
    if (const Member* check = table_.find("check")) expect_.check = read_boolean(field(*check));
    if (const Member* lost = table_.find("steps_lost"))
      expect_.steps_lost = read_numbers(field(*lost), NumberStyle::kPlain).value_or(NumberSet());
    if (const Member* attempts = table_.find("attempts")) build_attempts(field(*attempts));
    check_times();
    check_firings();
    check_result();
    return std::move(expect_);
  }

 private:
  Field field(const Member& member) {
    return {member.value, std::string(kPrefix) + member.key, expected_of(expect_rows(), member.key),
            diagnostics_};
  }

  std::optional<std::uint64_t> duration(std::string_view key) {
    const Member* member = table_.find(key);
    if (member == nullptr) return std::nullopt;
    return read_duration_ns(field(*member));
  }

  void build_outcomes(const Field& outcome) {
    std::array<std::string_view, kOutcomeCount> known;
    for (std::size_t i = 0; i < known.size(); ++i) known[i] = outcome_rows()[i].word;
    for (const Word& word : read_words(outcome).value_or(std::vector<Word>())) {
      const auto at = std::find(known.begin(), known.end(), word.text);
      if (at != known.end()) {
        expect_.outcomes |= 1U << static_cast<unsigned>(at - known.begin());
      } else {
        diagnostics_.add(
            word.place, outcome.path,
            "no outcome is called " + quoted(word.text) + suggestion(word.text, known));
      }
    }
  }

  void build_attempts(const Field& attempts) {
    expect_.attempts = read_numbers(attempts, NumberStyle::kPlain).value_or(NumberSet());
    if (!expect_.attempts.contains(0)) return;
    expect_.attempts = expect_.attempts.intersect(NumberSet::of(Interval{1, kNumberMax}));
    if (expect_.attempts.empty()) attempts.refuse("a job is started at least once; found 0");
  }

  void build_fired(const Field& fired) {
    if (!fired.value.is(Value::Kind::kTable)) {
      fired.refuse_type();
      return;
    }
    if (fired.value.members.size() > kFaultsMax) {
      fired.refuse("more than " + std::to_string(kFaultsMax) + " entries");
      return;
    }
    std::vector<std::string_view> names;
    for (const Fault& fault : scenario_.faults) names.push_back(fault.name);
    for (const Member& member : fired.value.members) {
      const Field count{member.value, "expect.fired." + member.key, "a whole number", diagnostics_};
      const auto fault =
          std::find_if(scenario_.faults.begin(), scenario_.faults.end(),
                       [&member](const Fault& each) { return each.name == member.key; });
      if (fault == scenario_.faults.end()) {
        diagnostics_.add(
            member.place, count.path,
            "no fault is called " + quoted(member.key) + suggestion(member.key, names));
        continue;
      }
      const std::optional<std::uint64_t> number = read_whole(count, 0);
      if (!number) continue;
      if (fault->budget != 0 && *number > fault->budget) {
        count.refuse("more than the budget of this fault, which is " +
                     std::to_string(fault->budget));
      }
      expect_.fired.push_back({member.key, *number});
    }
  }

  void check_times() {
    if (expect_.detected_within_ns && expect_.finished_within_ns &&
        *expect_.detected_within_ns > *expect_.finished_within_ns) {
      refuse("detected_within",
             "is longer than finished_within: a job that has ended detects nothing");
    }
    if (expect_.finished_within_ns && !may_be(~bit_of(Outcome::kHangs)))
      refuse("finished_within", contradicts_outcome() + ": a job that hangs does not finish");
  }

  void check_firings() {
    const bool is_none_to_fire =
        expect_.fired.size() == scenario_.faults.size() && !expect_.fired.empty() &&
        std::all_of(expect_.fired.begin(), expect_.fired.end(),
                    [](const ExpectedFirings& each) { return each.count == 0; });
    if (!is_none_to_fire) return;
    if (!may_be(bit_of(Outcome::kCompletes)))
      refuse("fired", contradicts_outcome() + ": no fault is to fire, so nothing can lead to it");
    if (expect_.detected_within_ns)
      refuse("detected_within", "no fault is to fire, so there is nothing to detect");
  }

  void check_result() {
    constexpr std::uint32_t kRight = bit_of(Outcome::kCompletes) | bit_of(Outcome::kRecovers);
    if (expect_.check == true && !may_be(kRight))
      refuse("check", contradicts_outcome() +
                          ": only a job that completes or recovers has a result that can be right");
    if (expect_.check == false && !may_be(bit_of(Outcome::kWrongResult)))
      refuse("check", contradicts_outcome() +
                          ": a result that is not that of the baseline is \"wrong-result\"");
    const bool is_undisturbed = expect_.outcomes == bit_of(Outcome::kCompletes);
    if (!expect_.steps_lost.empty() && !may_be(kRight | bit_of(Outcome::kWrongResult)))
      refuse("steps_lost",
             contradicts_outcome() + ": a job that does not go on loses more than can be counted");
    if (!expect_.steps_lost.empty() && is_undisturbed && !expect_.steps_lost.contains(0))
      refuse("steps_lost",
             contradicts_outcome() + ": a job that ends as if nothing had happened loses none");
    if (!expect_.attempts.empty() && is_undisturbed && !expect_.attempts.contains(1))
      refuse("attempts", contradicts_outcome() +
                             ": a job that ends as if nothing had happened is started once");
  }

  // Whether the outcome may be one of these.
  bool may_be(std::uint32_t outcomes) const {
    return expect_.outcomes == 0 || (expect_.outcomes & outcomes) != 0;
  }
  std::string contradicts_outcome() const {
    return "contradicts outcome = " + quoted(outcome_text(expect_.outcomes));
  }
  void refuse(std::string_view key, const std::string& problem) {
    diagnostics_.add(table_.find(key)->place, std::string(kPrefix) + std::string(key), problem);
  }

  const Value& table_;
  const Scenario& scenario_;
  Diagnostics& diagnostics_;
  Expectation expect_;
};

}  // namespace

std::optional<Expectation> build_expectation(const Value& value, const Scenario& scenario,
                                             Diagnostics& diagnostics) {
  if (!value.is(Value::Kind::kTable)) {
    diagnostics.add(value.place, "expect", "expected a table; found " + describe(value));
    return std::nullopt;
  }
  return ExpectationBuilder(value, scenario, diagnostics).build();
}

}  // namespace sabot::scenario::read
