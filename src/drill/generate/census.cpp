// Reading lines such as "[sabot] rank 1 AllReduce #3 count=6 float32 sum comm=c0 group=2.1".
#include "drill/generate/census.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <tuple>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "run/read/folder_listing.hpp"

namespace sabot::drill {
namespace {

constexpr std::size_t kNamedMax = 8;

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

std::string_view word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return out;
}

int number(std::string_view text) {
  int value = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() ? value : -1;
}

auto key_of(const Calls& calls) {
  return std::make_tuple(static_cast<int>(calls.function), std::string_view(calls.comm),
                         calls.rank);
}

}  // namespace

void Census::add(std::string_view line) {
  if (!take(line, "[sabot] ")) return;
  if (line.find(" lines held back") != line.npos) is_complete_ = false;
  if (!take(line, "rank ")) return;
  Calls one;
  one.rank = number(word(line));
  const std::optional<abi::FunctionId> function = abi::find_function(word(line));
  if (!function || !line.starts_with('#')) return;
  one.function = *function;
  one.count = 1;
  while (!line.empty()) {
    std::string_view next = word(line);
    if (next == "returned") return;  // the second line of a call that failed
    if (take(next, "comm=")) one.comm = next.starts_with("0x") ? "" : next;
    if (take(next, "group=")) one.first_in_group = 1;
  }
  const auto place =
      std::lower_bound(calls_.begin(), calls_.end(), one,
                       [](const Calls& a, const Calls& b) { return key_of(a) < key_of(b); });
  if (place == calls_.end() || key_of(*place) != key_of(one)) {
    calls_.insert(place, std::move(one));
    return;
  }
  ++place->count;
  if (place->first_in_group == 0 && one.first_in_group != 0) place->first_in_group = place->count;
}

std::vector<Calls> Census::calls() const { return calls_; }

Result<Census> read_census(const std::string& folder) {
  Census census;
  for (const std::string& name : run::list_folder(folder, ".log")) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    if (!file) return Error(Code::kSystem, "cannot read '" + folder + "/" + name + "'");
    for (std::string line; std::getline(file, line);) census.add(line);
  }
  if (!census.is_complete())
    return Error(Code::kInternal,
                 "the log of the baseline's calls in '" + folder + "' is not complete");
  return census;
}

std::string census_text(const std::vector<Calls>& calls) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < calls.size();) {
    std::uint64_t most = 0;
    std::vector<int> ranks;
    const abi::FunctionId function = calls[i].function;
    for (; i < calls.size() && calls[i].function == function; ++i) {
      most = std::max(most, calls[i].count);
      if (std::find(ranks.begin(), ranks.end(), calls[i].rank) == ranks.end())
        ranks.push_back(calls[i].rank);
    }
    const abi::Kind kind = abi::info(function).kind;
    if (kind != abi::Kind::collective && kind != abi::Kind::p2p) continue;
    parts.push_back(std::string(abi::info(function).name) + " (up to " + std::to_string(most) +
                    (most == 1 ? " time" : " times") + " on " + std::to_string(ranks.size()) +
                    (ranks.size() == 1 ? " rank)" : " ranks)"));
  }
  if (parts.empty()) return "no collective at all";
  const std::size_t left = parts.size() > kNamedMax ? parts.size() - kNamedMax : 0;
  parts.resize(parts.size() - left);
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return join(views, ", ") + (left > 0 ? " and " + std::to_string(left) + " others" : "");
}

}  // namespace sabot::drill
