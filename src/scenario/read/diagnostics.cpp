// Rendering of diagnostics.
//
// The one-line form shows a window of the line around the caret: a line may be a kilobyte of
// generated text, and a caret that wraps points at nothing.
#include "scenario/read/diagnostics.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::size_t kQuotedMax = 64;
constexpr std::size_t kWindowBefore = 60;
constexpr std::size_t kWindowAfter = 30;

std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, '?');
  return out;
}

// Cuts between characters, not within one: UTF-8 continuation bytes are 10xxxxxx.
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

std::string caret(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const bool fits = text.size() <= kWindowBefore + kWindowAfter;
  std::size_t begin = !fits && offset > kWindowBefore ? offset - kWindowBefore : 0;
  while (begin > 0 && begin < offset && is_continuation(text[begin])) ++begin;
  std::size_t end = fits ? text.size() : std::min(text.size(), offset + kWindowAfter);
  while (end < text.size() && is_continuation(text[end])) ++end;
  const std::string lead = begin > 0 ? "…" : "";
  const auto columns =
      static_cast<std::size_t>(std::count_if(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                             text.begin() + static_cast<std::ptrdiff_t>(offset),
                                             [](char c) { return !is_continuation(c); }));
  return "\n  " + lead + printable(text.substr(begin, end - begin)) +
         (end < text.size() ? "…" : "") + "\n  " + std::string(columns + (begin > 0 ? 1 : 0), ' ') +
         "^";
}

}  // namespace

std::string quoted(std::string_view text) {
  if (text.size() <= kQuotedMax) return "'" + printable(text) + "'";
  std::size_t end = kQuotedMax;
  while (end > 0 && is_continuation(text[end])) --end;
  return "'" + printable(text.substr(0, end)) + "…'";
}

std::string Diagnostics::render(Place place, std::string_view key,
                                const std::string& problem) const {
  std::string out(source_.name);
  if (source_.form == Source::Form::kFile && place.line > 0)
    out += ":" + std::to_string(place.line);
  out += ": ";
  if (!key.empty()) out += "key " + quoted(key) + ": ";
  out += printable(problem);
  if (source_.form == Source::Form::kLine) out += caret(source_.text, place.offset);
  return out;
}

void Diagnostics::add(Place place, std::string_view key, const std::string& problem) {
  ++count_;
  if (problems_.size() < kDiagnosticsMax) problems_.push_back({place, render(place, key, problem)});
}

void Diagnostics::warn(Place place, std::string_view key, const std::string& problem) {
  if (warnings_.size() < kDiagnosticsMax) warnings_.push_back(render(place, key, problem));
}

Error Diagnostics::error() const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return a.place.line != b.place.line ? a.place.line < b.place.line
                                        : a.place.offset < b.place.offset;
  });
  std::vector<std::string_view> lines;
  for (const Problem& problem : sorted) lines.push_back(problem.text);
  std::string text = join(lines, "\n");
  if (count_ > sorted.size()) text += "\n… and " + std::to_string(count_ - sorted.size()) + " more";
  return Error(Code::kInvalidArgument, text);
}

}  // namespace sabot::scenario::read
