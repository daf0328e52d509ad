// One key with its value, its path and what it expects: typed reading with uniform error texts.
//
// Every reader yields the value or reports what was expected and what was found, and yields
// nothing. Nothing here knows a key by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/number_set.hpp"
#include "scenario/read/diagnostics.hpp"
#include "scenario/read/value.hpp"

namespace sabot::scenario::read {

// Longer waits are mistakes, and up to here whole nanoseconds are exact in every computation.
inline constexpr std::uint64_t kDurationMaxNs = 30ULL * 24 * 3600 * 1'000'000'000;
inline constexpr std::size_t kTextMax = 256;
inline constexpr std::size_t kListMax = 256;

struct Field {
  const Value& value;
  std::string path;
  std::string_view expected;
  Diagnostics& diagnostics;

  void refuse(const std::string& problem) const { diagnostics.add(value.place, path, problem); }
  void refuse_type() const;
};

std::optional<std::string> read_text(const Field& field);
std::optional<bool> read_boolean(const Field& field);
// A whole number from low on.
std::optional<std::uint64_t> read_whole(const Field& field, std::uint64_t low);
std::optional<double> read_number(const Field& field);
std::optional<std::uint64_t> read_duration_ns(const Field& field);
// A number, a text of numbers, or a list of both. Refuses the empty set.
std::optional<NumberSet> read_numbers(const Field& field, NumberStyle style);

// The words of a text ("a|b") or of a list of texts, each with its place; never empty.
struct Word {
  std::string text;
  Place place;
};
std::optional<std::vector<Word>> read_words(const Field& field);

// Reports every member whose key is not one of keys.
void refuse_unknown_keys(const Value& table, std::string_view prefix,
                         std::span<const std::string_view> keys, Diagnostics& diagnostics);
// "; did you mean 'rank'?", or "; known: a, b, c" if nothing is near and the list is short.
std::string suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace sabot::scenario::read
