// What the decider remembers of calls at which nothing fired, for explain.hpp.
#include <algorithm>

#include "scenario/decide/words.hpp"
#include "scenario/decider.hpp"
#include "scenario/names.hpp"

namespace sabot::scenario {

// Calls that failed these conditions are near misses if it is only one.
void Decider::add_only(std::uint32_t index, std::uint32_t failed, std::uint64_t calls) const {
  if (failed != 0 && (failed & (failed - 1)) == 0)
    add(tallies_[index].only_failed[__builtin_ctz(failed)], calls);
}

void Decider::note_failure(std::uint32_t index, std::uint32_t failed, const abi::Call& call,
                           const Moment& moment) {
  FaultTally& tally = tallies_[index];
  raise_to(tally.closest_inverted, pack_distance(failed));
  if ((failed & (failed - 1)) != 0) return;
  const auto only = static_cast<std::size_t>(__builtin_ctz(failed));
  const auto note_number = [&](std::int64_t value) {
    if (value < 0) return;
    raise_to(tally.seen_high[only], static_cast<std::uint64_t>(value));
    raise_to(tally.seen_low_inverted[only], ~static_cast<std::uint64_t>(value));
  };
  const auto note_bit = [&](unsigned bit) {
    // relaxed: see words.hpp
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

// Of faults that a call met but for the moment: how far off it is.
void Decider::note_moving(std::uint64_t missed, const abi::Call& call, const Moment& moment) {
  for_each_bit(missed, [&](std::uint32_t i) {
    const std::uint32_t failed = failed_moving(i, moment);
    if (failed != 0) note_failure(i, failed, call, moment);
  });
}

void Decider::flush() const {
  classes_.for_each([this](CallClass& seen) { tally_class(seen, nullptr); });
}

// moment: that of a call which the outstanding ones are like; null if none is at hand, and then a
// fault with several moving conditions is not blamed on one of them.
void Decider::tally_class(CallClass& seen, const Moment* moment) const {
  const std::uint64_t calls = seen.take();
  if (calls == 0) return;
  const ClassVerdict& verdict = seen.verdict();
  const std::uint64_t passed = seen.passed();
  const std::uint64_t armed = armed_.load();
  for_each_bit(candidates_[static_cast<std::size_t>(verdict.function)], [&](std::uint32_t i) {
    FaultTally& tally = tallies_[i];
    add(tally.calls, calls);
    if (verdict.only_failed[i] != ClassVerdict::kNone)
      add(tally.only_failed[verdict.only_failed[i]], calls);
    if ((verdict.met & ~passed) >> i & 1U)
      add_only(i, moment == nullptr ? compiled_[i].conditions & kMoving : failed_moving(i, *moment),
               calls);
    if ((passed >> i & 1U) == 0) return;
    if ((armed >> i & 1U) == 0) {
      add(tally.unarmed, calls);
    } else if (verdict.row >= 0) {  // else told as dropped already
      add(tally.matched, calls);
      if (!compiled_[i].is_selective) add(tally.counted, calls);
      raise_to(tally.match_max,
               counters_->count(static_cast<std::uint32_t>(verdict.row), column_of(i)));
    }
  });
}

}  // namespace sabot::scenario
