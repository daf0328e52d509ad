// Small things that the parts of the decider share: sets of faults and of conditions as words, and
// tally words that several threads add to.
//
// All tallies are relaxed: each is a number of its own that publishes no other memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "scenario/scenario.hpp"

namespace sabot::scenario {

inline constexpr std::uint32_t kTimed =
    bit_of(Condition::kAfter) | bit_of(Condition::kAfterFirstCall);
inline constexpr std::uint32_t kMoving = kTimed | bit_of(Condition::kSwitch);
inline constexpr std::uint32_t kSelective =
    bit_of(Condition::kNth) | bit_of(Condition::kRange) | bit_of(Condition::kEvery);

using Word = std::atomic_ref<std::uint64_t>;

inline void add(std::uint64_t& word, std::uint64_t number) {
  Word(word).fetch_add(number, std::memory_order_relaxed);
}
inline void add_one(std::uint64_t& word) { add(word, 1); }

inline void raise_to(std::uint64_t& word, std::uint64_t value) {
  Word shared(word);
  std::uint64_t seen = shared.load(std::memory_order_relaxed);
  while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

template <typename Visit>
void for_each_bit(std::uint64_t bits, Visit&& visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(__builtin_ctzll(bits)));
}

inline std::uint64_t elapsed_since(std::uint64_t begin_ns, std::uint64_t now_ns) {
  return now_ns > begin_ns ? now_ns - begin_ns : 0;
}

}  // namespace sabot::scenario
