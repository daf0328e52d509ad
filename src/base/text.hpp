// Small text helpers shared by every parser and message: nearest word, split, trim, join.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sabot {

// The candidate with the smallest edit distance (case ignored), if close enough to be a typo of
// word.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

std::string_view trim(std::string_view text);
// Splits at every separator; empty pieces are kept.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(std::span<const std::string_view> words, std::string_view separator);
bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string lower(std::string_view text);

}  // namespace sabot
