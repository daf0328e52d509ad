// Pacing: when how many bytes may go, for a rate and what went before.
#include "link/net/rules.hpp"

#include <algorithm>

namespace sabot::link::net {
namespace {

// Bytes go in portions of about so long, so that a slow link trickles instead of stopping for long.
constexpr std::uint64_t kPortionNs = 5'000'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::uint64_t time_of(std::uint64_t bytes, std::uint64_t rate_bytes_per_s) {
  const long double seconds =
      static_cast<long double>(bytes) / static_cast<long double>(rate_bytes_per_s);
  return static_cast<std::uint64_t>(seconds * static_cast<long double>(kSecondNs));
}

}  // namespace

std::uint64_t Pace::allowance(std::uint64_t bytes, std::uint64_t rate_bytes_per_s,
                              std::uint64_t at_ns) const {
  // relaxed: a budget; two threads at once overdraw it by a portion, which the next wait repays
  if (busy_until_ns_.load(std::memory_order_relaxed) > at_ns) return 0;
  const std::uint64_t portion = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<long double>(rate_bytes_per_s) * kPortionNs /
                                    kSecondNs));
  return std::min(bytes, portion);
}

void Pace::went(std::uint64_t bytes, std::uint64_t rate_bytes_per_s, std::uint64_t at_ns) {
  if (rate_bytes_per_s == 0) return;
  const std::uint64_t cost = time_of(bytes, rate_bytes_per_s);
  // relaxed: see allowance
  std::uint64_t before = busy_until_ns_.load(std::memory_order_relaxed);
  while (!busy_until_ns_.compare_exchange_weak(before, std::max(before, at_ns) + cost,
                                               std::memory_order_relaxed)) {
  }
}

}  // namespace sabot::link::net
