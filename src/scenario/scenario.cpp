// Questions that a scenario answers about itself.
#include "scenario/scenario.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace sabot::scenario {

std::uint32_t conditions_of(const Trigger& trigger) {
  std::uint32_t bits = bit_of(Condition::kCall);
  const auto add = [&bits](Condition condition, bool is_present) {
    if (is_present) bits |= bit_of(condition);
  };
  add(Condition::kRank, !trigger.rank.empty());
  add(Condition::kWorldRank, !trigger.world_rank.empty());
  add(Condition::kHost, !trigger.host.empty());
  add(Condition::kComm, !trigger.comm.empty());
  add(Condition::kBytes, !trigger.bytes.empty());
  add(Condition::kCount, !trigger.count.empty());
  add(Condition::kDatatype, trigger.datatypes != 0);
  add(Condition::kRedop, trigger.redops != 0);
  add(Condition::kRoot, !trigger.root.empty());
  add(Condition::kPeer, !trigger.peer.empty());
  add(Condition::kAttempt, !trigger.attempt.empty());
  add(Condition::kCaptured, trigger.captured.has_value());
  add(Condition::kAfter, trigger.after_ns.has_value());
  add(Condition::kAfterFirstCall, trigger.after_first_call_ns.has_value());
  add(Condition::kSwitch, !trigger.switch_name.empty());
  add(Condition::kNth, trigger.nth.has_value());
  add(Condition::kRange, !trigger.range.empty());
  add(Condition::kEvery, trigger.every.has_value());
  add(Condition::kProbability, trigger.probability.has_value());
  return bits;
}

const Argument* Action::find(std::string_view key) const {
  for (const Argument& argument : arguments)
    if (argument.key == key) return &argument;
  return nullptr;
}

int Action::result() const {
  const Argument* code = find(kind == ActionKind::kAsyncError ? "async_error" : "error");
  const auto* number = code == nullptr ? nullptr : std::get_if<std::uint64_t>(&code->value);
  return number == nullptr ? 0 : static_cast<int>(*number);
}

Moment Action::moment() const {
  const Argument* at = find("at");
  const auto* word = at == nullptr ? nullptr : std::get_if<std::string>(&at->value);
  return word != nullptr && *word == "after" ? Moment::kAfter : Moment::kBefore;
}

bool operator==(const Scenario& a, const Scenario& b) {
  return std::tie(a.name, a.seed, a.ranks, a.faults, a.expect) ==
         std::tie(b.name, b.seed, b.ranks, b.faults, b.expect);
}

Status append_faults(Scenario& into, Scenario from, std::string_view origin) {
  const auto refuse = [origin](const std::string& problem) {
    return Error(Code::kInvalidArgument, std::string(origin) + ": " + problem);
  };
  if (into.faults.size() + from.faults.size() > kFaultsMax)
    return refuse("more than " + std::to_string(kFaultsMax) + " faults in one run");
  for (const Fault& fault : from.faults) {
    const bool is_taken =
        std::any_of(into.faults.begin(), into.faults.end(),
                    [&fault](const Fault& other) { return other.name == fault.name; });
    if (is_taken)
      return refuse("the scenario file has a fault named \"" + fault.name +
                    "\" already; give this one another name, "
                    "as in 'other: AllReduce[nth=3]=error(SystemError)'");
  }
  std::move(from.faults.begin(), from.faults.end(), std::back_inserter(into.faults));
  std::move(from.warnings.begin(), from.warnings.end(), std::back_inserter(into.warnings));
  if (from.seed != 0) into.seed = from.seed;
  return {};
}

std::uint64_t all_faults(const Scenario& scenario) {
  return scenario.faults.size() >= kFaultsMax ? ~0ULL : (1ULL << scenario.faults.size()) - 1;
}

std::uint64_t armed_at_start(const Scenario& scenario) {
  std::uint64_t armed = 0;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    if (scenario.faults[i].is_armed) armed |= 1ULL << i;
  return armed;
}

std::vector<std::string> switches_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const Fault& fault : scenario.faults) {
    const std::string& name = fault.when.switch_name;
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace sabot::scenario
