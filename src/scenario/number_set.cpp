// Parsing, normalising and printing of number sets.
//
// The only subtle part is that the domain is all of uint64: successor and predecessor are taken
// only where they exist, and "< 0" is the empty set, which callers refuse as a condition that
// cannot hold.
#include "scenario/number_set.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "base/units.hpp"

namespace sabot::scenario {
namespace {

Error wrong(std::string_view part, std::string_view why, NumberStyle style) {
  const bool bytes = style == NumberStyle::kBytes;
  return Error(Code::kInvalidArgument, "'" + std::string(part) + "' " + std::string(why) +
                                           "; write for instance " +
                                           (bytes ? R"(4096, "4KiB", ">=1MiB" or "4KiB..1MiB")"
                                                  : R"(3, [1, 2], "0-3", ">=4" or "!=0")"));
}

Result<std::uint64_t> parse_number(std::string_view text, NumberStyle style) {
  if (style == NumberStyle::kBytes) {
    constexpr std::uint64_t kBytesMax = 1ULL << 60;  // as below: room for +1, exact as a double
    const std::uint64_t bytes = SABOT_TRY(parse_bytes(text));
    if (bytes > kBytesMax) return Error(Code::kInvalidArgument, "the size is too large");
    return bytes;
  }
  constexpr std::size_t kDigitsMax =
      18;  // below 2^60: no overflow, and far above any rank or count
  if (text.empty()) return Error(Code::kInvalidArgument, "the number is missing");
  if (text.size() > kDigitsMax) return Error(Code::kInvalidArgument, "the number is too large");
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return Error(Code::kInvalidArgument, "not a whole number");
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

struct Operator {
  std::string_view text;
  NumberSet (*apply)(std::uint64_t);
};

NumberSet at_least(std::uint64_t n) { return NumberSet::of(Interval{n, kNumberMax}); }
NumberSet at_most(std::uint64_t n) { return NumberSet::of(Interval{0, n}); }
NumberSet above(std::uint64_t n) { return n == kNumberMax ? NumberSet() : at_least(n + 1); }
NumberSet below(std::uint64_t n) { return n == 0 ? NumberSet() : at_most(n - 1); }
NumberSet equal(std::uint64_t n) { return NumberSet::of(n); }
NumberSet other_than(std::uint64_t n) {
  NumberSet set = below(n);
  set.unite(above(n));
  return set;
}

// Longer operators first, so that ">=" is not read as ">".
constexpr std::array<Operator, 7> kOperators{{{">=", at_least},
                                              {"<=", at_most},
                                              {"!=", other_than},
                                              {"==", equal},
                                              {">", above},
                                              {"<", below},
                                              {"=", equal}}};

Result<NumberSet> parse_range(std::string_view part, std::string_view low_text,
                              std::string_view high_text, NumberStyle style) {
  const std::string_view low = trim(low_text);
  const std::string_view high = trim(high_text);
  if (low.empty() && high.empty()) return wrong(part, "has neither a beginning nor an end", style);
  Interval interval;
  if (!low.empty()) {
    const Result<std::uint64_t> number = parse_number(low, style);
    if (!number.ok()) return wrong(part, "is not a range of numbers", style);
    interval.low = *number;
  }
  if (!high.empty()) {
    const Result<std::uint64_t> number = parse_number(high, style);
    if (!number.ok()) return wrong(part, "is not a range of numbers", style);
    interval.high = *number;
  }
  if (interval.low > interval.high) {
    return Error(Code::kInvalidArgument,
                 "the range '" + std::string(part) + "' is reversed; write '" + std::string(high) +
                     (style == NumberStyle::kBytes ? ".." : "-") + std::string(low) + "'");
  }
  return NumberSet::of(interval);
}

Result<NumberSet> parse_part(std::string_view part, NumberStyle style) {
  if (part.empty()) return wrong(part, "is empty", style);
  for (const Operator& op : kOperators) {
    if (part.substr(0, op.text.size()) != op.text) continue;
    const Result<std::uint64_t> number = parse_number(trim(part.substr(op.text.size())), style);
    if (!number.ok()) return wrong(part, "is not a comparison with a number", style);
    return op.apply(*number);
  }
  const std::size_t dots = part.find("..");
  if (dots != std::string_view::npos)
    return parse_range(part, part.substr(0, dots), part.substr(dots + 2), style);
  const std::size_t dash = part.find('-');
  if (dash == 0) return wrong(part, "is below zero", style);
  if (dash != std::string_view::npos) {
    if (trim(part.substr(dash + 1)).empty()) return wrong(part, "has no end", style);
    return parse_range(part, part.substr(0, dash), part.substr(dash + 1), style);
  }
  const Result<std::uint64_t> number = parse_number(part, style);
  if (!number.ok())
    return wrong(part, style == NumberStyle::kBytes ? "is not a size" : "is not a number", style);
  return NumberSet::of(*number);
}

std::string print_number(std::uint64_t number, NumberStyle style) {
  return style == NumberStyle::kBytes ? format_bytes(number) : std::to_string(number);
}

std::string print_interval(Interval interval, NumberStyle style) {
  if (interval.low == interval.high) return print_number(interval.low, style);
  if (interval.high == kNumberMax) return ">=" + print_number(interval.low, style);
  if (interval.low == 0) return "<=" + print_number(interval.high, style);
  return print_number(interval.low, style) + (style == NumberStyle::kBytes ? ".." : "-") +
         print_number(interval.high, style);
}

}  // namespace

NumberSet NumberSet::of(Interval interval) {
  NumberSet set;
  set.intervals_.push_back(interval);
  return set;
}

Result<NumberSet> NumberSet::parse(std::string_view text, NumberStyle style) {
  NumberSet any;
  std::size_t pieces = 0;
  for (const std::string_view alternative : split(text, ',')) {
    NumberSet every = all();
    for (const std::string_view part : split(alternative, '&')) {
      if (++pieces > kIntervalsMax)
        return Error(Code::kInvalidArgument,
                     "more than " + std::to_string(kIntervalsMax) + " numbers; use a range");
      every = every.intersect(SABOT_TRY(parse_part(trim(part), style)));
    }
    any.unite(every);
  }
  return any;
}

bool NumberSet::contains(std::uint64_t number) const {
  return std::any_of(intervals_.begin(), intervals_.end(), [number](const Interval& interval) {
    return number >= interval.low && number <= interval.high;
  });
}

std::optional<std::uint64_t> NumberSet::single() const {
  if (intervals_.size() != 1 || low() != high()) return std::nullopt;
  return low();
}

void NumberSet::unite(const NumberSet& other) {
  intervals_.insert(intervals_.end(), other.intervals_.begin(), other.intervals_.end());
  normalise();
}

NumberSet NumberSet::intersect(const NumberSet& other) const {
  NumberSet both;
  for (const Interval& a : intervals_) {
    for (const Interval& b : other.intervals_) {
      const Interval common{std::max(a.low, b.low), std::min(a.high, b.high)};
      if (common.low <= common.high) both.intervals_.push_back(common);
    }
  }
  both.normalise();
  return both;
}

void NumberSet::normalise() {
  std::sort(intervals_.begin(), intervals_.end());
  std::vector<Interval> merged;
  for (const Interval& next : intervals_) {
    const bool joins =
        !merged.empty() && (merged.back().high == kNumberMax || next.low <= merged.back().high + 1);
    if (joins) {
      merged.back().high = std::max(merged.back().high, next.high);
    } else {
      merged.push_back(next);
    }
  }
  intervals_ = std::move(merged);
}

std::string NumberSet::to_string(NumberStyle style) const {
  const bool has_hole = intervals_.size() == 2 && low() == 0 && high() == kNumberMax &&
                        intervals_[0].high + 2 == intervals_[1].low;
  if (has_hole) return "!=" + print_number(intervals_[0].high + 1, style);
  std::string text;
  for (const Interval& interval : intervals_) {
    if (!text.empty()) text += ',';
    text += print_interval(interval, style);
  }
  return text;
}

}  // namespace sabot::scenario
