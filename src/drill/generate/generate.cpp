// Enumerating, reading, sampling.
#include "drill/generate/generate.hpp"

#include <algorithm>
#include <optional>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"

namespace sabot::drill {
namespace {

using abi::Kind;

struct Combination {
  const Calls* calls = nullptr;
  Phase phase = Phase::kFirst;
  std::uint64_t nth = 0;
  std::size_t action = 0;
  scenario::Scenario scenario;
};

bool is_wanted_kind(Phase phase, Kind kind) {
  if (phase == Phase::kInit) return kind == Kind::init || kind == Kind::derive;
  if (phase == Phase::kTeardown) return kind == Kind::finalize || kind == Kind::destroy;
  return kind == Kind::collective || kind == Kind::p2p;
}

// Which of the calls a phase means; 0: none of them.
std::uint64_t nth_of(const Calls& calls, Phase phase, std::uint64_t seed) {
  switch (phase) {
    case Phase::kInit:
    case Phase::kTeardown:
    case Phase::kFirst: return 1;
    case Phase::kLast: return calls.count > 1 ? calls.count : 0;
    case Phase::kGroup: return calls.first_in_group;
    case Phase::kSteady: break;
  }
  if (calls.count < 3) return 0;
  std::uint64_t bits = mix(seed, hash_text(calls.comm));
  bits = mix(bits, mix(static_cast<std::uint64_t>(calls.function),
                       static_cast<std::uint64_t>(calls.rank)));
  return 2 + Random(bits).below(calls.count - 2);
}

std::string line_of(const Combination& one, const std::string& action) {
  const Calls& calls = *one.calls;
  std::string line = "fault: " + std::string(abi::info(calls.function).name) + "[";
  if (!calls.comm.empty()) line += "comm='" + calls.comm + "',";
  if (calls.rank >= 0) line += "rank=" + std::to_string(calls.rank) + ",";
  return line + "nth=" + std::to_string(one.nth) + ",attempt=0,budget=1]=" + action;
}

std::string name_of(const Combination& one, const std::string& action) {
  const Calls& calls = *one.calls;
  std::string name = std::string(abi::info(calls.function).name) + " #" + std::to_string(one.nth);
  if (calls.rank >= 0) name += " rank " + std::to_string(calls.rank);
  if (!calls.comm.empty()) name += " " + calls.comm;
  return name + " " + action;
}

class Generator {
 public:
  Generator(const std::vector<Calls>& calls, const Generate& wanted, std::uint64_t seed)
      : calls_(calls), wanted_(wanted), seed_(seed) {}

  // "" if something was found.
  std::string enumerate() {
    bool any_call = false;
    for (const Calls& calls : calls_) {
      if (!is_meant(calls)) continue;
      for (const Phase phase : wanted_.phases) {
        if (!is_wanted_kind(phase, abi::info(calls.function).kind)) continue;
        const std::uint64_t nth = nth_of(calls, phase, seed_);
        if (nth == 0 || is_taken(calls, nth)) continue;
        any_call = true;
        for (std::size_t i = 0; i < wanted_.actions.size(); ++i)
          combine({&calls, phase, nth, i, {}});
      }
    }
    if (!any_call)
      return "the baseline makes no call that is asked for here; it calls " + census_text(calls_);
    for (std::size_t i = 0; i < wanted_.actions.size(); ++i)
      if (std::none_of(found_.begin(), found_.end(),
                       [i](const Combination& one) { return one.action == i; }))
        return "the action '" + wanted_.actions[i] +
               "' fits none of the calls that are asked for: " + why_not_[i];
    return "";
  }

  Generated sample() {
    Generated out;
    for (const std::size_t index : chosen()) {
      const Combination& one = found_[index];
      PlannedCase planned;
      planned.name = name_of(one, wanted_.actions[one.action]);
      planned.scenario = one.scenario;
      planned.scenario.name = planned.name + " (" + std::string(word_of(one.phase)) + ")";
      out.cases.push_back(std::move(planned));
    }
    out.left_out = found_.size() - out.cases.size();
    return out;
  }

 private:
  bool is_meant(const Calls& calls) const {
    const std::string_view name = abi::info(calls.function).name;
    const bool is_named =
        wanted_.calls.empty() ||
        std::any_of(wanted_.calls.begin(), wanted_.calls.end(), [&](const std::string& call) {
          return abi::find_function(call) == abi::find_function(name);
        });
    const bool is_rank =
        wanted_.ranks.empty() ||
        (calls.rank >= 0 && wanted_.ranks.contains(static_cast<std::uint64_t>(calls.rank)));
    return is_named && is_rank;
  }

  // Two phases may mean the same call.
  bool is_taken(const Calls& calls, std::uint64_t nth) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Combination& one) {
      return one.calls == &calls && one.nth == nth;
    });
  }

  void combine(Combination one) {
    why_not_.resize(wanted_.actions.size());
    const std::string& action = wanted_.actions[one.action];
    Result<scenario::Scenario> read = scenario::parse_line(line_of(one, action), "generate");
    if (read.ok()) {
      const Status decidable = scenario::check_decidable(*read);
      if (!decidable.ok()) read = Error(decidable.error());
    }
    if (!read.ok()) {
      const std::string text = read.error().message();
      why_not_[one.action] = text.substr(0, text.find('\n'));
      return;
    }
    one.scenario = std::move(read).value();
    found_.push_back(std::move(one));
  }

  // Indexes into found_, ascending: each action in turn gives one of its own, in a seeded order.
  std::vector<std::size_t> chosen() const {
    std::vector<std::vector<std::size_t>> by_action(wanted_.actions.size());
    for (std::size_t i = 0; i < found_.size(); ++i) by_action[found_[i].action].push_back(i);
    for (std::size_t a = 0; a < by_action.size(); ++a) {
      Random random(mix(seed_, a));
      for (std::size_t i = by_action[a].size(); i > 1; --i)
        std::swap(by_action[a][i - 1], by_action[a][random.below(i)]);
    }
    std::vector<std::size_t> out;
    for (std::size_t turn = 0; turn < found_.size(); ++turn)
      for (const std::vector<std::size_t>& mine : by_action)
        if (turn < mine.size() && out.size() < wanted_.budget) out.push_back(mine[turn]);
    std::sort(out.begin(), out.end());
    return out;
  }

  const std::vector<Calls>& calls_;
  const Generate& wanted_;
  std::uint64_t seed_;
  std::vector<Combination> found_;
  std::vector<std::string> why_not_;
};

}  // namespace

Result<Generated> generate(const std::vector<Calls>& calls, const Generate& wanted,
                           std::uint64_t seed, const std::string& where) {
  Generator generator(calls, wanted, seed);
  const std::string problem = generator.enumerate();
  if (!problem.empty()) return Error(Code::kInvalidArgument, where + ": " + problem);
  Generated out = generator.sample();
  for (PlannedCase& planned : out.cases) {
    planned.states_expectation = wanted.expect.has_value();
    if (wanted.expect) planned.expect = *wanted.expect;
  }
  return out;
}

}  // namespace sabot::drill
