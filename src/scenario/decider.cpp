// The decision, condition by condition.
//
// Which thread gets which match number is the order of their fetch_add, and within one rank that is
// the order of its calls. What is told of faults that did not fire is kept by decide/tallying.cpp.
#include "scenario/decider.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/decide/words.hpp"
#include "scenario/names.hpp"
#include "scenario/pattern.hpp"
#include "scenario/sense.hpp"

namespace sabot::scenario {
namespace {

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

// Two words into one, by the product that a multiplier gives in a few cycles. The constants are the
// first digits of pi.
std::uint64_t folded(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x243f6a8885a308d3ULL) * (b ^ 0x13198a2e03707344ULL);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

// FNV-1a without the mixing of hash_text.
std::uint64_t text_bits(const char* text) {
  std::uint64_t bits = 0xcbf29ce484222325ULL;
  for (; *text != '\0'; ++text)
    bits = (bits ^ static_cast<unsigned char>(*text)) * 0x100000001b3ULL;
  return bits;
}

// Which calls a trigger counts, whichever of them it wants.
Trigger without_counting(Trigger trigger) {
  trigger.nth.reset();
  trigger.range = NumberSet();
  trigger.every.reset();
  trigger.probability.reset();
  return trigger;
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
    compiled.hash = mix(mix(mix(scenario_.seed), hash_text(fault.name)));
    const auto name = std::find(switch_names_.begin(), switch_names_.end(), fault.when.switch_name);
    if (name != switch_names_.end()) compiled.switch_bit = 1ULL << (name - switch_names_.begin());
    if (fault.when.after_first_call_ns) first_call_wanted_ = 1;
    used_ |= compiled.conditions;
    if ((compiled.conditions & kTimed) != 0) timed_ |= 1ULL << i;
    if (compiled.switch_bit != 0) switched_ |= 1ULL << i;
    compiled.is_selective = (compiled.conditions & kSelective) != 0;
    compiled.is_drawn = fault.when.probability.has_value();
    compiled.draw_end =
        static_cast<std::uint64_t>(std::ceil(fault.when.probability.value_or(1) * 0x1.0p53));
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
  const std::uint64_t on = met & (~switched_ | switched_on(moment.switches));
  const std::uint64_t passed = on & (~timed_ | timely(moment));
  const bool is_usual = known != nullptr && known->passed() == passed;
  if (known != nullptr && !is_usual) {
    tally_class(*known, nullptr);
    known->set_passed(passed);
  }
  const std::uint64_t ready =
      passed & armed_.load(std::memory_order_relaxed);  // pairs with: follow
  Draft draft(call, fixed.row, known != nullptr);
  if (known == nullptr)
    for_each_bit(passed & ~ready, [this](std::uint32_t i) { add_one(tallies_[i].unarmed); });
  if (ready != 0) draw(ready, draft);
  if (known == nullptr) {
    for_each_bit(met & ~passed, [&](std::uint32_t i) { add_only(i, failed_moving(i, moment), 1); });
    note_moving(met & ~passed, call, moment);
  }
  if (known != nullptr && known->count()) {
    tally_class(*known, &moment);
    note_moving(met & ~passed, call, moment);
  }
  const std::uint64_t requested = controls.fire & on & ~draft.fires;
  for_each_bit(draft.fires | requested, [&](std::uint32_t i) {
    const bool is_requested = (requested >> i & 1U) != 0;
    const std::uint64_t number = is_requested ? 0 : draft.numbers[i];
    const std::uint64_t bits = mix(compiled_[i].hash ^ draft.identity(number));
    verdict.add({i, number, mix(bits, 1), is_requested});
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
  std::uint64_t hash =
      folded(word(static_cast<int>(call.function), call.attempt), word(call.world_rank, call.rank));
  if (looks_at(Condition::kComm)) {
    hash = folded(hash ^ text_bits(call.comm_label), text_bits(call.comm_name));
    hash += static_cast<std::uint64_t>(call.comm_ranks);
  }
  if (looks_at(Condition::kBytes) || looks_at(Condition::kCount))
    hash = folded(hash ^ call.bytes, call.count) + (call.has_count ? 1 : 0);
  if (looks_at(Condition::kDatatype) || looks_at(Condition::kRedop) || looks_at(Condition::kRoot) ||
      looks_at(Condition::kPeer))
    hash = folded(hash ^ word(call.datatype, call.redop), word(call.root, call.peer));
  if (looks_at(Condition::kCaptured)) hash += call.captured ? 1 : 2;
  return mix(hash);
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
    add_only(i, failed, 1);
    if ((failed & (failed - 1)) == 0)
      verdict.only_failed[i] = static_cast<std::uint8_t>(__builtin_ctz(failed));
  });
  if (verdict.met != 0) {
    const std::optional<std::uint32_t> row = counters_->row_of(counting_rank(call), call.attempt);
    verdict.row = row ? static_cast<std::int32_t>(*row) : -1;
  }
  return verdict;
}

// The faults whose time has come. The set only grows, so that a thread which read the clock earlier
// may find a fault ready a moment too soon.
std::uint64_t Decider::timely(const Moment& moment) {
  if (timed_ == 0) return 0;
  // Acquire: whoever sees when the next one is due must see those that were due before.
  if (moment.now_ns < due_ns_.load(std::memory_order_acquire))  // pairs with: timely
    return timely_.load(std::memory_order_relaxed);             // pairs with: timely
  std::uint64_t ready = 0;
  std::uint64_t due_ns = kNumberMax;
  for_each_bit(timed_, [&](std::uint32_t i) {
    const Trigger& trigger = scenario_.faults[i].when;
    const std::uint64_t at = std::max(
        trigger.after_ns ? start_ns_ + *trigger.after_ns : 0,
        trigger.after_first_call_ns ? moment.first_call_ns + *trigger.after_first_call_ns : 0);
    if (moment.now_ns >= at) {
      ready |= 1ULL << i;
    } else {
      due_ns = std::min(due_ns, at);
    }
  });
  ready |= timely_.fetch_or(ready);
  due_ns_.store(due_ns, std::memory_order_release);  // pairs with: timely
  return ready;
}

std::uint64_t Decider::switched_on(std::uint64_t switches) const {
  std::uint64_t on = 0;
  if (switches == 0) return on;
  for_each_bit(switched_, [&](std::uint32_t i) {
    if ((compiled_[i].switch_bit & switches) != 0) on |= 1ULL << i;
  });
  return on;
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
    if (!wants(i, draft, drawn.number)) return;
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

// By nth, range and every, then by chance. Without the former every match is counted, and tallied
// with its class.
bool Decider::wants(std::uint32_t index, Draft& draft, std::uint64_t number) {
  const Compiled& compiled = compiled_[index];
  if (compiled.is_selective && !is_counted(index, number)) return false;
  if (compiled.is_selective || !draft.is_tallied) add_one(tallies_[index].counted);
  if (!compiled.is_drawn) return true;
  return mix(compiled.hash ^ draft.identity(number)) >> 11U < compiled.draw_end;
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

std::uint64_t Decider::Draft::identity(std::uint64_t number) {
  if (call.nth == 0) return identity_of(call, number);
  if (known_identity == 0) known_identity = identity_of(call, number);
  return known_identity;
}

// What tells this call from all others, the same in every run.
std::uint64_t Decider::identity_of(const abi::Call& call, std::uint64_t number) {
  // The call's own number identifies it whatever else runs; matches are numbered in the order in
  // which threads arrive, and serve only where the boundary has no number.
  const std::uint64_t which = call.nth != 0 ? call.nth : number;
  std::uint64_t bits = mix(static_cast<std::uint64_t>(counting_rank(call) + 1),
                           static_cast<std::uint64_t>(call.attempt));
  bits = mix(bits, hash_text(call.comm_label));
  bits = mix(bits, hash_text(abi::info(call.function).name));
  return mix(bits, which);
}

}  // namespace sabot::scenario
