// A set of whole numbers as people write it in a trigger: 3, "0-3", ">=1MiB", "!=0", "0,4-7".
//
// Every numeric condition (ranks, bytes, counts, attempts, comm size) is one NumberSet, so there is
// one grammar, one printed form and one notion of contradiction. The set is kept as sorted,
// disjoint, non-adjacent closed intervals: two texts that mean the same compare equal. Which
// numbers make sense for a key (a rank below the number of ranks, a size on a call that has one) is
// decided elsewhere.
//
//   set  = all *( "," all )            any of them
//   all  = part *( "&" part )          all of them
//   part = N | N-M | N..M | N.. | ..M | >=N | >N | <=N | <N | !=N      both ends included
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace sabot::scenario {

inline constexpr std::uint64_t kNumberMax = std::numeric_limits<std::uint64_t>::max();
// A condition that needs more pieces than this is a mistake, and membership is a linear search.
inline constexpr std::size_t kIntervalsMax = 256;

struct Interval {
  std::uint64_t low = 0;
  std::uint64_t high = kNumberMax;
  auto operator<=>(const Interval&) const = default;
};

// How N is written: 4096, or 4096 and 4KiB alike.
enum class NumberStyle : std::uint8_t { kPlain, kBytes };

class NumberSet {
 public:
  NumberSet() = default;  // the empty set
  static NumberSet of(std::uint64_t number) { return of(Interval{number, number}); }
  static NumberSet of(Interval interval);
  static NumberSet all() { return of(Interval{}); }

  // The error names the part that is wrong and what to write instead.
  static Result<NumberSet> parse(std::string_view text, NumberStyle style);

  bool empty() const { return intervals_.empty(); }
  bool contains(std::uint64_t number) const;
  // Preconditions: !empty().
  std::uint64_t low() const { return intervals_.front().low; }
  std::uint64_t high() const { return intervals_.back().high; }
  const std::vector<Interval>& intervals() const { return intervals_; }
  std::optional<std::uint64_t> single() const;

  void unite(const NumberSet& other);
  NumberSet intersect(const NumberSet& other) const;

  // The canonical text; parse(to_string(s)) == s.
  std::string to_string(NumberStyle style) const;

  bool operator==(const NumberSet&) const = default;

 private:
  void normalise();
  std::vector<Interval> intervals_;
};

}  // namespace sabot::scenario
