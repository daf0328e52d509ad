// Replacing, quoting, filtering.
#include "drill/words.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sabot::drill {

std::string filled_in(const std::string& word, const Places& places) {
  const std::array<std::pair<std::string_view, std::string>, 5> all{{
      {"{work}", places.mine.work()},
      {"{output}", places.mine.output()},
      {"{run}", places.mine.run()},
      {"{baseline}", places.baseline.work()},
      {"{baseline_output}", places.baseline.output()},
  }};
  std::string out;
  for (std::size_t i = 0; i < word.size();) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) {
      return word.compare(i, one.first.size(), one.first) == 0;
    });
    if (found == all.end()) {
      out += word[i++];
      continue;
    }
    out += found->second;
    i += found->first.size();
  }
  return out;
}

std::vector<std::string> filled_in(const std::vector<std::string>& words, const Places& places) {
  std::vector<std::string> out;
  for (const std::string& word : words) out.push_back(filled_in(word, places));
  return out;
}

bool names_baseline(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find("{baseline}") != word.npos || word.find("{baseline_output}") != word.npos;
  });
}

std::string shell_text(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^";
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

std::vector<std::string> environment_for_runs(const char* const* environment) {
  constexpr std::string_view kTaken[] = {
      "SABOT_RUN_FOLDER=", "SABOT_SCENARIO=", "SABOT_FAULT=", "SABOT_LAUNCHER=", "SABOT_SEED="};
  std::vector<std::string> out;
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(kTaken), std::end(kTaken),
                     [text](std::string_view name) { return text.starts_with(name); }))
      out.emplace_back(text);
  }
  return out;
}

}  // namespace sabot::drill
