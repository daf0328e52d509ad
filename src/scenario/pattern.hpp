// Shell-like patterns for host names and communicators: '*' is any text, '?' any one character.
//
// Matching never allocates and never recurses: one remembered star is enough to backtrack, so that
// it is bounded by pattern length × text length and can run inside a call.
#pragma once

#include <string_view>

namespace sabot::scenario {

constexpr bool matches_pattern(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;   // the last '*' seen …
  std::size_t star_text = 0;  // … and where the text after it is tried next
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace sabot::scenario
