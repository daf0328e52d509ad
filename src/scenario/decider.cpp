// The decision, condition by condition.
//
// All counters are relaxed: each is a number of its own that publishes no other memory. Which
// thread gets which match number is the order of their fetch_add, and within one rank that is the
// order of its calls.
#include "scenario/decider.hpp"

#include <algorithm>
#include <utility>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/names.hpp"
#include "scenario/pattern.hpp"

namespace sabot::scenario {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

void add_one(std::uint64_t& word) { Word(word).fetch_add(1, std::memory_order_relaxed); }

void raise_to(std::uint64_t& word, std::uint64_t value) {
  Word shared(word);
  std::uint64_t seen = shared.load(std::memory_order_relaxed);
  while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

bool contains(const NumberSet& set, std::int64_t number) {
  return number >= 0 && set.contains(static_cast<std::uint64_t>(number));
}

bool has_bit(std::uint32_t bits, int value) {
  return value >= 0 && value < 32 && (bits >> value & 1U) != 0;
}

bool matches_comm(const CommTerm& term, const abi::Call& call) {
  switch (term.kind) {
    case CommTerm::Kind::kLabel: return matches_pattern(term.pattern, call.comm_label);
    case CommTerm::Kind::kName:
      return call.comm_name[0] != '\0' && matches_pattern(term.pattern, call.comm_name);
    case CommTerm::Kind::kSize: return call.comm_ranks > 0 && contains(term.size, call.comm_ranks);
  }
  return false;
}

bool matches_any_comm(const std::vector<CommTerm>& terms, const abi::Call& call) {
  return std::any_of(terms.begin(), terms.end(),
                     [&call](const CommTerm& term) { return matches_comm(term, call); });
}

bool matches_any_host(const std::vector<std::string>& patterns, std::string_view host) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [host](const std::string& pattern) { return matches_pattern(pattern, host); });
}

// The rank that a call is counted under: in the world where that is known, else in its comm.
int counting_rank(const abi::Call& call) {
  return call.world_rank >= 0 ? call.world_rank : call.rank;
}

std::uint64_t elapsed_since(std::uint64_t begin_ns, std::uint64_t now_ns) {
  return now_ns > begin_ns ? now_ns - begin_ns : 0;
}

std::uint64_t all_bits(std::size_t count) { return count >= 64 ? ~0ULL : (1ULL << count) - 1; }

}  // namespace

Decider::Decider(Scenario scenario, const Context& context)
    : scenario_(std::move(scenario)),
      start_ns_(context.start_ns),
      switch_names_(switches_of(scenario_)),
      compiled_(scenario_.faults.size()),
      counters_(std::make_unique<Counter[]>(kCountersMax * scenario_.faults.size())),
      own_tallies_(context.tallies.size() < scenario_.faults.size() ? scenario_.faults.size() : 0),
      tallies_(own_tallies_.empty() ? context.tallies : std::span<FaultTally>(own_tallies_)) {
  live_ = all_bits(scenario_.faults.size());
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    Compiled& compiled = compiled_[i];
    compiled.conditions = conditions_of(fault.when);
    compiled.is_host_met = matches_any_host(fault.when.host, context.host);
    compiled.hash = mix(mix(scenario_.seed), hash_text(fault.name));
    const auto name = std::find(switch_names_.begin(), switch_names_.end(), fault.when.switch_name);
    if (name != switch_names_.end()) compiled.switch_bit = 1ULL << (name - switch_names_.begin());
    if (fault.when.after_first_call_ns) first_call_wanted_ = 1;
    for (const abi::FunctionInfo& info : abi::all_functions())
      if (matches(fault.when.call, info.id))
        candidates_[static_cast<std::size_t>(info.id)] |= 1ULL << i;
  }
}

Verdict Decider::enter(const abi::Call& call, std::uint64_t now_ns, std::uint64_t switches) {
  Verdict verdict;
  const Moment moment{now_ns, note_first_call(now_ns), switches};
  std::uint64_t candidates = candidates_[static_cast<std::size_t>(call.function)] &
                             live_.load(std::memory_order_relaxed);  // pairs with: retire
  for (; candidates != 0; candidates &= candidates - 1) {
    Firing firing{static_cast<std::uint32_t>(__builtin_ctzll(candidates)), 0};
    if (decide(firing.fault, call, moment, firing)) verdict.add(firing);
  }
  return verdict;
}

std::uint64_t Decider::note_first_call(std::uint64_t now_ns) {
  // Acquire: who sees that the first call is noted must see its time.
  if (first_call_wanted_.load(std::memory_order_acquire) == 0)  // pairs with: note_first_call
    return first_call_ns_.load(std::memory_order_relaxed);      // pairs with: note_first_call
  std::uint64_t first = 0;
  // Whoever is first sets it; 0 means "not yet", and a clock that reads 0 is taken for 1.
  if (first_call_ns_.compare_exchange_strong(first, std::max<std::uint64_t>(now_ns, 1)))
    first = std::max<std::uint64_t>(now_ns, 1);
  first_call_wanted_ = 0;
  return first;
}

bool Decider::decide(std::uint32_t index, const abi::Call& call, const Moment& moment,
                     Firing& firing) {
  FaultTally& tally = tallies_[index];
  const Trigger& trigger = scenario_.faults[index].when;
  add_one(tally.calls);
  const std::uint32_t failed = failed_conditions(index, call, moment);
  if (failed != 0) {
    note_failure(index, failed, call, moment);
    return false;
  }
  firing.number = next_number(index, call);
  if (firing.number == 0) {
    add_one(tally.ranks_dropped);
    return false;
  }
  add_one(tally.matched);
  raise_to(tally.match_max, firing.number);
  const bool is_counted = (!trigger.nth || *trigger.nth == firing.number) &&
                          (trigger.range.empty() || trigger.range.contains(firing.number)) &&
                          (!trigger.every || firing.number % *trigger.every == 0);
  if (!is_counted) return false;
  add_one(tally.counted);
  if (!is_drawn(index, call, firing.number)) return false;
  add_one(tally.wanted);
  return true;
}

std::uint32_t Decider::failed_conditions(std::uint32_t index, const abi::Call& call,
                                         const Moment& moment) const {
  const Trigger& trigger = scenario_.faults[index].when;
  const Compiled& compiled = compiled_[index];
  std::uint32_t failed = 0;
  const auto require = [&](Condition condition, const auto& is_met) {
    if ((compiled.conditions & bit_of(condition)) != 0 && !is_met()) failed |= bit_of(condition);
  };
  require(Condition::kRank, [&] { return contains(trigger.rank, call.rank); });
  require(Condition::kWorldRank, [&] { return contains(trigger.world_rank, call.world_rank); });
  require(Condition::kHost, [&] { return compiled.is_host_met; });
  require(Condition::kComm, [&] { return matches_any_comm(trigger.comm, call); });
  require(Condition::kBytes, [&] { return call.has_count && trigger.bytes.contains(call.bytes); });
  require(Condition::kCount, [&] { return call.has_count && trigger.count.contains(call.count); });
  require(Condition::kDatatype, [&] { return has_bit(trigger.datatypes, call.datatype); });
  require(Condition::kRedop, [&] {
    return call.redop >= 0 && has_bit(trigger.redops, static_cast<int>(redop_bit(call.redop)));
  });
  require(Condition::kRoot, [&] { return contains(trigger.root, call.root); });
  require(Condition::kPeer, [&] { return contains(trigger.peer, call.peer); });
  require(Condition::kAttempt, [&] { return contains(trigger.attempt, call.attempt); });
  require(Condition::kCaptured, [&] { return *trigger.captured == call.captured; });
  require(Condition::kAfter,
          [&] { return elapsed_since(start_ns_, moment.now_ns) >= *trigger.after_ns; });
  require(Condition::kAfterFirstCall, [&] {
    return elapsed_since(moment.first_call_ns, moment.now_ns) >= *trigger.after_first_call_ns;
  });
  require(Condition::kSwitch, [&] { return (moment.switches & compiled.switch_bit) != 0; });
  return failed;
}

std::uint64_t Decider::next_number(std::uint32_t index, const abi::Call& call) {
  const auto attempt = static_cast<std::uint32_t>(std::max(call.attempt, 0)) + 1;
  const auto rank = static_cast<std::uint32_t>(counting_rank(call) + 1);
  const std::uint64_t owner = static_cast<std::uint64_t>(attempt) << 32U | rank;
  Counter* const counters = counters_.get() + kCountersMax * index;
  std::size_t slot = mix(owner) % kCountersMax;
  for (std::size_t probes = 0; probes < kCountersMax; ++probes) {
    Counter& counter = counters[slot];
    std::uint64_t found = counter.owner.load(std::memory_order_relaxed);  // pairs with: next_number
    if (found == 0 && counter.owner.compare_exchange_strong(found, owner)) found = owner;
    if (found == owner) return counter.count.fetch_add(1, std::memory_order_relaxed) + 1;
    slot = (slot + 1) % kCountersMax;
  }
  return 0;
}

bool Decider::is_drawn(std::uint32_t index, const abi::Call& call, std::uint64_t number) const {
  const std::optional<double> probability = scenario_.faults[index].when.probability;
  if (!probability) return true;
  // The call's own number identifies it whatever else runs; matches are numbered in the order in
  // which threads arrive, and serve only where the boundary has no number.
  const std::uint64_t which = call.nth != 0 ? call.nth : number;
  std::uint64_t bits = compiled_[index].hash;
  bits = mix(bits, static_cast<std::uint64_t>(counting_rank(call) + 1));
  bits = mix(bits, static_cast<std::uint64_t>(call.attempt));
  bits = mix(bits, hash_text(call.comm_label));
  bits = mix(bits, hash_text(abi::info(call.function).name));
  bits = mix(bits, which);
  return unit_interval(bits) < *probability;
}

void Decider::note_failure(std::uint32_t index, std::uint32_t failed, const abi::Call& call,
                           const Moment& moment) {
  FaultTally& tally = tallies_[index];
  raise_to(tally.closest_inverted, pack_distance(failed));
  if ((failed & (failed - 1)) != 0) return;
  const auto only = static_cast<std::size_t>(__builtin_ctz(failed));
  add_one(tally.only_failed[only]);
  const auto note_number = [&](std::int64_t value) {
    if (value < 0) return;
    raise_to(tally.seen_high[only], static_cast<std::uint64_t>(value));
    raise_to(tally.seen_low_inverted[only], ~static_cast<std::uint64_t>(value));
  };
  const auto note_bit = [&](unsigned bit) {
    Word(tally.seen_high[only]).fetch_or(1ULL << (bit & 63U), std::memory_order_relaxed);
  };
  switch (static_cast<Condition>(only)) {
    case Condition::kRank: note_number(call.rank); break;
    case Condition::kWorldRank: note_number(call.world_rank); break;
    case Condition::kComm: note_number(call.comm_ranks); break;
    case Condition::kBytes: note_number(static_cast<std::int64_t>(call.bytes)); break;
    case Condition::kCount: note_number(static_cast<std::int64_t>(call.count)); break;
    case Condition::kRoot: note_number(call.root); break;
    case Condition::kPeer: note_number(call.peer); break;
    case Condition::kAttempt: note_number(call.attempt); break;
    case Condition::kDatatype:
      if (call.datatype >= 0) note_bit(static_cast<unsigned>(call.datatype));
      break;
    case Condition::kRedop:
      if (call.redop >= 0) note_bit(redop_bit(call.redop));
      break;
    case Condition::kAfter:
      note_number(static_cast<std::int64_t>(elapsed_since(start_ns_, moment.now_ns)));
      break;
    case Condition::kAfterFirstCall:
      note_number(static_cast<std::int64_t>(elapsed_since(moment.first_call_ns, moment.now_ns)));
      break;
    default: break;  // a host, a capture state and a switch have no value to tell
  }
}

void Decider::count_fired(std::uint32_t fault) { add_one(tallies_[fault].fired); }

FaultTally Decider::tally(std::uint32_t fault) const {
  FaultTally copy{};
  FaultTally& live = tallies_[fault];
  merge(copy, live);
  return copy;
}

void merge(FaultTally& into, const FaultTally& from) {
  // atomic_ref has no form for const objects before C++26; only loads are made.
  const auto load = [](const std::uint64_t& word) {
    return Word(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
  };
  into.calls += load(from.calls);
  into.matched += load(from.matched);
  into.counted += load(from.counted);
  into.wanted += load(from.wanted);
  into.fired += load(from.fired);
  into.ranks_dropped += load(from.ranks_dropped);
  into.match_max = std::max(into.match_max, load(from.match_max));
  into.closest_inverted = std::max(into.closest_inverted, load(from.closest_inverted));
  for (std::size_t i = 0; i < kConditionCount; ++i) {
    const bool is_set = i == index_of(Condition::kDatatype) || i == index_of(Condition::kRedop);
    const std::uint64_t high = load(from.seen_high[i]);
    into.only_failed[i] += load(from.only_failed[i]);
    into.seen_high[i] = is_set ? into.seen_high[i] | high : std::max(into.seen_high[i], high);
    into.seen_low_inverted[i] =
        std::max(into.seen_low_inverted[i], load(from.seen_low_inverted[i]));
  }
}

}  // namespace sabot::scenario
