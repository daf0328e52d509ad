// The decision, condition by condition.
//
// All tallies are relaxed: each is a number of its own that publishes no other memory. Which thread
// gets which match number is the order of their fetch_add, and within one rank that is the order of
// its calls.
#include "scenario/decider.hpp"

#include <algorithm>
#include <utility>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/names.hpp"
#include "scenario/pattern.hpp"
#include "scenario/sense.hpp"

namespace sabot::scenario {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

void add(std::uint64_t& word, std::uint64_t number) {
  Word(word).fetch_add(number, std::memory_order_relaxed);
}
void add_one(std::uint64_t& word) { add(word, 1); }

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

constexpr std::uint32_t kMoving =
    bit_of(Condition::kAfter) | bit_of(Condition::kAfterFirstCall) | bit_of(Condition::kSwitch);

// Which calls a trigger counts, whichever of them it wants.
Trigger without_counting(Trigger trigger) {
  trigger.nth.reset();
  trigger.range = NumberSet();
  trigger.every.reset();
  trigger.probability.reset();
  return trigger;
}

template <typename Visit>
void for_each_bit(std::uint64_t bits, Visit&& visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(__builtin_ctzll(bits)));
}

}  // namespace

Decider::Decider(Scenario scenario, const Context& context)
    : scenario_(std::move(scenario)),
      start_ns_(context.start_ns),
      switch_names_(switches_of(scenario_)),
      compiled_(scenario_.faults.size()),
      own_tallies_(context.tallies.size() < scenario_.faults.size() ? scenario_.faults.size() : 0),
      tallies_(own_tallies_.empty() ? context.tallies : std::span<FaultTally>(own_tallies_)) {
  live_ = all_faults(scenario_);
  armed_ = armed_at_start(scenario_);
  compile(context);
  // A column for each set of faults that count alike, and one for each fault for when it is armed
  // later than its fellows.
  counters_.emplace(members_.size() + scenario_.faults.size());
}

void Decider::compile(const Context& context) {
  std::vector<Trigger> asked;
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    Compiled& compiled = compiled_[i];
    compiled.conditions = conditions_of(fault.when);
    compiled.is_host_met = matches_any_host(fault.when.host, context.host);
    compiled.hash = mix(mix(scenario_.seed), hash_text(fault.name));
    const auto name = std::find(switch_names_.begin(), switch_names_.end(), fault.when.switch_name);
    if (name != switch_names_.end()) compiled.switch_bit = 1ULL << (name - switch_names_.begin());
    if (fault.when.after_first_call_ns) first_call_wanted_ = 1;
    used_ |= compiled.conditions;
    if ((compiled.conditions & kMoving) != 0) moving_ |= 1ULL << i;
    const Act act = act_of(fault.action);
    for (const abi::FunctionInfo& info : abi::all_functions()) {
      if (!matches(fault.when.call, info.id) || !makes_sense(act, info.id)) continue;
      candidates_[static_cast<std::size_t>(info.id)] |= 1ULL << i;
      relevant_[static_cast<std::size_t>(info.id)] |= compiled.conditions;
    }
    asked.push_back(without_counting(fault.when));
    assign_column(asked);
  }
}

// Faults whose numbers can never differ share a column of the counters. For the last of asked.
void Decider::assign_column(const std::vector<Trigger>& asked) {
  const std::size_t index = asked.size() - 1;
  const auto shares = [&](std::size_t other) {
    const auto is_candidate_alike = [&](std::uint64_t candidates) {
      return (candidates >> other & 1U) == (candidates >> index & 1U);
    };
    return scenario_.faults[other].is_armed == scenario_.faults[index].is_armed &&
           asked[other] == asked[index] &&
           std::all_of(candidates_.begin(), candidates_.end(), is_candidate_alike);
  };
  std::size_t alike = 0;
  while (alike < index && !shares(alike)) ++alike;
  if (alike == index) members_.push_back(0);
  compiled_[index].column = alike == index ? members_.size() - 1 : compiled_[alike].column;
  members_[compiled_[index].column] |= 1ULL << index;
}

Verdict Decider::enter(const abi::Call& call, std::uint64_t now_ns, const Controls& controls) {
  Verdict verdict;
  follow(controls);
  const Moment moment{now_ns, note_first_call(now_ns), controls.switches};
  const std::uint64_t live = live_.load(std::memory_order_relaxed);  // pairs with: retire
  if ((candidates_[static_cast<std::size_t>(call.function)] & live) == 0) return verdict;
  const std::uint64_t hash = hash_of(call);
  CallClass* const known = classes_.find(hash);
  ClassVerdict fresh;
  if (known == nullptr) classes_.insert(hash, fresh = classify(call));
  const ClassVerdict& fixed = known != nullptr ? known->verdict() : fresh;
  const std::uint64_t met = fixed.met & live;
  std::uint64_t fire = controls.fire & met;
  const std::uint64_t passed = passing(met, moment, call, fire);
  const std::uint64_t armed = armed_.load(std::memory_order_relaxed);  // pairs with: follow
  Draft draft(call, fixed.row, known != nullptr && passed == met);
  if (!draft.is_tallied)
    for_each_bit(passed & ~armed, [this](std::uint32_t i) { add_one(tallies_[i].unarmed); });
  if ((passed & armed) != 0) draw(passed & armed, draft);
  if (known != nullptr && known->count(draft.is_tallied)) tally_class(*known);
  fire &= ~draft.fires;
  for_each_bit(draft.fires | fire, [&](std::uint32_t i) {
    const bool is_requested = (fire >> i & 1U) != 0;
    const std::uint64_t number = is_requested ? 0 : draft.numbers[i];
    verdict.add({i, number, mix(bits_of(i, call, number), 1), is_requested});
  });
  return verdict;
}

// All that the fixed conditions of this function's faults look at, and whose count it is.
std::uint64_t Decider::hash_of(const abi::Call& call) const {
  const std::uint32_t relevant = relevant_[static_cast<std::size_t>(call.function)];
  const auto word = [](int high, int low) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U |
           static_cast<std::uint32_t>(low);
  };
  const auto looks_at = [relevant](Condition condition) {
    return (relevant & bit_of(condition)) != 0;
  };
  std::uint64_t hash = mix(word(static_cast<int>(call.function), call.attempt));
  hash = mix(hash ^ word(call.world_rank, call.rank));
  if (looks_at(Condition::kComm)) {
    hash = mix(hash ^ hash_text(call.comm_label));
    hash = mix(hash ^ hash_text(call.comm_name));
    hash = mix(hash ^ word(call.comm_ranks, 0));
  }
  if (looks_at(Condition::kBytes) || looks_at(Condition::kCount)) {
    hash = mix(hash ^ call.bytes);
    hash = mix(hash ^ call.count) + (call.has_count ? 1 : 0);
  }
  if (looks_at(Condition::kDatatype) || looks_at(Condition::kRedop))
    hash = mix(hash ^ word(call.datatype, call.redop));
  if (looks_at(Condition::kRoot) || looks_at(Condition::kPeer))
    hash = mix(hash ^ word(call.root, call.peer));
  if (looks_at(Condition::kCaptured)) hash = mix(hash ^ (call.captured ? 1 : 2));
  return hash;
}

ClassVerdict Decider::classify(const abi::Call& call) {
  ClassVerdict verdict;
  verdict.function = call.function;
  verdict.only_failed.fill(ClassVerdict::kNone);
  for_each_bit(candidates_[static_cast<std::size_t>(call.function)], [&](std::uint32_t i) {
    add_one(tallies_[i].calls);
    const std::uint32_t failed = failed_fixed(i, call);
    if (failed == 0) {
      verdict.met |= 1ULL << i;
      return;
    }
    note_failure(i, failed, call, Moment{});
    if ((failed & (failed - 1)) == 0)
      verdict.only_failed[i] = static_cast<std::uint8_t>(__builtin_ctz(failed));
  });
  if (verdict.met != 0) {
    const std::optional<std::uint32_t> row = counters_->row_of(counting_rank(call), call.attempt);
    verdict.row = row ? static_cast<std::int32_t>(*row) : -1;
  }
  return verdict;
}

// Those of met whose moving conditions hold too. Leaves in fire what is asked to fire and may.
std::uint64_t Decider::passing(std::uint64_t met, const Moment& moment, const abi::Call& call,
                               std::uint64_t& fire) {
  std::uint64_t passed = met;
  for_each_bit(met & moving_, [&](std::uint32_t i) {
    const std::uint32_t failed = failed_moving(i, moment);
    if (failed == 0) return;
    note_failure(i, failed, call, moment);
    passed &= ~(1ULL << i);
    if ((failed & bit_of(Condition::kSwitch)) != 0) fire &= ~(1ULL << i);
  });
  return passed;
}

std::size_t Decider::column_of(std::uint32_t index) const {
  const bool is_alone = (alone_.load() >> index & 1U) != 0;
  return is_alone ? members_.size() + index : compiled_[index].column;
}

void Decider::draw(std::uint64_t ready, Draft& draft) {
  if (draft.row < 0) {
    for_each_bit(ready, [this](std::uint32_t i) { add_one(tallies_[i].ranks_dropped); });
    return;
  }
  const std::uint64_t alone = ready & alone_.load(std::memory_order_relaxed);  // pairs with: follow
  for_each_bit(alone, [&](std::uint32_t i) { draw_column(members_.size() + i, 1ULL << i, draft); });
  for (std::uint64_t rest = ready & ~alone; rest != 0;) {
    const std::size_t column = compiled_[static_cast<std::size_t>(__builtin_ctzll(rest))].column;
    draw_column(column, rest & members_[column], draft);
    rest &= ~members_[column];
  }
}

void Decider::draw_column(std::size_t column, std::uint64_t members, Draft& draft) {
  const auto row = static_cast<std::uint32_t>(draft.row);
  const MatchCounters::Drawn drawn = counters_->draw(row, column);
  if (!draft.is_tallied) {
    for_each_bit(members, [&](std::uint32_t i) {
      add_one(tallies_[i].matched);
      raise_to(tallies_[i].match_max, drawn.number);
    });
  }
  if (!drawn.is_awaited) return;
  for_each_bit(members, [&](std::uint32_t i) {
    if (!is_counted(i, drawn.number)) return;
    add_one(tallies_[i].counted);
    const std::optional<double>& probability = scenario_.faults[i].when.probability;
    if (probability && unit_interval(bits_of(i, draft.call, drawn.number)) >= *probability) return;
    add_one(tallies_[i].wanted);
    draft.fires |= 1ULL << i;
    draft.numbers[i] = drawn.number;
  });
  // Of all members, not only those that were ready now.
  const bool is_alone = column >= members_.size();
  std::uint64_t next = kNumberMax;
  for_each_bit(is_alone ? members : members_[column],
               [&](std::uint32_t i) { next = std::min(next, first_after(i, drawn.number)); });
  counters_->await(row, column, next);
}

bool Decider::is_counted(std::uint32_t index, std::uint64_t number) const {
  const Trigger& trigger = scenario_.faults[index].when;
  return (!trigger.nth || *trigger.nth == number) &&
         (trigger.range.empty() || trigger.range.contains(number)) &&
         (!trigger.every || number % *trigger.every == 0);
}

// The first number above this one that nth, range and every let pass; kNumberMax: none.
std::uint64_t Decider::first_after(std::uint32_t index, std::uint64_t number) const {
  const Trigger& trigger = scenario_.faults[index].when;
  if (trigger.nth) return *trigger.nth > number ? *trigger.nth : kNumberMax;
  const std::uint64_t every = trigger.every.value_or(1);
  const auto multiple_from = [every](std::uint64_t low) {
    const std::uint64_t over = low % every;
    return over == 0 ? low : low - over + std::min(every, kNumberMax - (low - over));
  };
  if (trigger.range.empty()) return multiple_from(number + 1);
  for (const Interval& interval : trigger.range.intervals()) {
    if (interval.high <= number) continue;
    const std::uint64_t next = multiple_from(std::max(interval.low, number + 1));
    if (next <= interval.high) return next;
  }
  return kNumberMax;
}

void Decider::follow(const Controls& controls) {
  std::uint64_t seen = generation_.load(std::memory_order_relaxed);  // pairs with: follow
  if (__builtin_expect(controls.generation <= seen, 1)) return;
  while (!generation_.compare_exchange_weak(seen, controls.generation))
    if (controls.generation <= seen) return;
  flush();  // what was counted so far was counted under the old state
  const std::uint64_t armed = controls.armed & all_faults(scenario_);
  for_each_bit(armed & ~armed_.exchange(armed), [this](std::uint32_t i) {
    counters_->restart(members_.size() + i);
    alone_.fetch_or(1ULL << i);
  });
}

void Decider::flush() const {
  classes_.for_each([this](CallClass& seen) { tally_class(seen); });
}

void Decider::tally_class(CallClass& seen) const {
  const CallClass::Counts counts = seen.take();
  if (counts.calls == 0) return;
  const ClassVerdict& verdict = seen.verdict();
  const std::uint64_t armed = armed_.load();
  for_each_bit(candidates_[static_cast<std::size_t>(verdict.function)], [&](std::uint32_t i) {
    FaultTally& tally = tallies_[i];
    add(tally.calls, counts.calls);
    if (verdict.only_failed[i] != ClassVerdict::kNone)
      add(tally.only_failed[verdict.only_failed[i]], counts.calls);
    if ((verdict.met >> i & 1U) == 0) return;
    const bool is_armed = (armed >> i & 1U) != 0;
    if (is_armed && verdict.row < 0) return;  // told as dropped already
    add(is_armed ? tally.matched : tally.unarmed, counts.usual);
    if (is_armed)
      raise_to(tally.match_max,
               counters_->count(static_cast<std::uint32_t>(verdict.row), column_of(i)));
  });
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

std::uint32_t Decider::failed_fixed(std::uint32_t index, const abi::Call& call) const {
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
  return failed;
}

std::uint32_t Decider::failed_moving(std::uint32_t index, const Moment& moment) const {
  const Trigger& trigger = scenario_.faults[index].when;
  std::uint32_t failed = 0;
  if (trigger.after_ns && elapsed_since(start_ns_, moment.now_ns) < *trigger.after_ns)
    failed |= bit_of(Condition::kAfter);
  if (trigger.after_first_call_ns &&
      elapsed_since(moment.first_call_ns, moment.now_ns) < *trigger.after_first_call_ns)
    failed |= bit_of(Condition::kAfterFirstCall);
  const std::uint64_t switch_bit = compiled_[index].switch_bit;
  if (switch_bit != 0 && (moment.switches & switch_bit) == 0) failed |= bit_of(Condition::kSwitch);
  return failed;
}

std::uint64_t Decider::bits_of(std::uint32_t index, const abi::Call& call,
                               std::uint64_t number) const {
  // The call's own number identifies it whatever else runs; matches are numbered in the order in
  // which threads arrive, and serve only where the boundary has no number.
  const std::uint64_t which = call.nth != 0 ? call.nth : number;
  std::uint64_t bits = compiled_[index].hash;
  bits = mix(bits, static_cast<std::uint64_t>(counting_rank(call) + 1));
  bits = mix(bits, static_cast<std::uint64_t>(call.attempt));
  bits = mix(bits, hash_text(call.comm_label));
  bits = mix(bits, hash_text(abi::info(call.function).name));
  return mix(bits, which);
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
    case Condition::kCaptured: note_number(call.captured ? 1 : 0); break;
    default: break;  // a host and a switch have no value to tell
  }
}

void Decider::count_fired(std::uint32_t fault) { add_one(tallies_[fault].fired); }

FaultTally Decider::tally(std::uint32_t fault) const {
  flush();
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
  into.unarmed += load(from.unarmed);
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
