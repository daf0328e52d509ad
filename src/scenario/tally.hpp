// What a fault has seen so far: enough to say, when it never fired, what came closest.
//
// Plain 64-bit words of fixed layout, all zero when empty, so that a tally can lie in a mapped file
// and outlive its process; threads and processes add to it with relaxed atomics and readers take
// whatever is there. Counts may lag by a sixty-fourth behind a process that was killed
// (decide/call_classes.hpp). The words only grow, so that tallies of several processes merge by
// sums, maxima and unions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "scenario/scenario.hpp"

namespace sabot::scenario {

struct FaultTally {
  std::uint64_t calls;          // of the functions that the trigger names
  std::uint64_t matched;        // … that met all conditions but nth, range, every and probability
  std::uint64_t counted;        // … that met nth, range and every too
  std::uint64_t wanted;         // … and probability: the fault wanted to fire
  std::uint64_t fired;          // … and its budget allowed it
  std::uint64_t match_max;      // the most matches of one rank in one attempt
  std::uint64_t ranks_dropped;  // calls not considered because too many ranks live in one process
  std::uint64_t unarmed;        // calls that met all conditions while the fault was not armed
  // The fewest conditions that a call failed and which ones: pack_distance(); 0: no call yet.
  std::uint64_t closest_inverted;
  // Per condition: calls that failed nothing else, and the values they had. Datatype and redop keep
  // a set of bits in seen_high; numbers keep the greatest in seen_high and the complement of the
  // least.
  std::uint64_t only_failed[kConditionCount];
  std::uint64_t seen_high[kConditionCount];
  std::uint64_t seen_low_inverted[kConditionCount];
};
static_assert(std::is_trivially_copyable_v<FaultTally> && std::is_standard_layout_v<FaultTally>);
static_assert(sizeof(FaultTally) == (9 + 3 * kConditionCount) * 8);

// Orders calls by how many conditions they failed; inverted, so that 0 is "none", closer is more.
constexpr std::uint64_t pack_distance(std::uint32_t failed_conditions) {
  const auto count = static_cast<std::uint64_t>(__builtin_popcount(failed_conditions));
  return ~(count << 32U | failed_conditions);
}
constexpr std::uint32_t unpack_distance(std::uint64_t closest_inverted) {
  return static_cast<std::uint32_t>(~closest_inverted);
}

// Adds what another process or attempt saw.
void merge(FaultTally& into, const FaultTally& from);

}  // namespace sabot::scenario
