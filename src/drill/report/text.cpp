// Decoding is done once, here: everybody else works on text that is known to be harmless.
#include "drill/report/text.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "base/units.hpp"
#include "run/json_writer.hpp"

namespace sabot::drill::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::uint64_t kSecond_ns = 1'000'000'000;

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t point) {
  for (const Range& range : ranges)
    if (point >= range.first && point <= range.last) return true;
  return false;
}

// Marks that turn the direction of what follows, and the line ends that are not \n.
constexpr std::array<Range, 5> kReordering{
    {{0x061C, 0x061C}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF}}};
constexpr std::array<Range, 4> kZeroWidth{
    {{0x0300, 0x036F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 9> kDoubleWidth{{{0x1100, 0x115F},
                                             {0x2E80, 0xA4CF},
                                             {0xAC00, 0xD7A3},
                                             {0xF900, 0xFAFF},
                                             {0xFE30, 0xFE6F},
                                             {0xFF00, 0xFF60},
                                             {0xFFE0, 0xFFE6},
                                             {0x1F300, 0x1FAFF},
                                             {0x20000, 0x3FFFD}}};

char32_t decoded(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  char32_t point = byte(0) & (0x7FU >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) point = (point << 6U) | (byte(i) & 0x3FU);
  return point;
}

// The length of the terminal sequence that text begins with: colours and cursors (ESC [ … final),
// titles and links (ESC ] … BEL or ESC \). 0 if it is none, or is cut off.
std::size_t sequence_length(std::string_view text) {
  if (text.size() < 3 || text[0] != '\033') return 0;
  if (text[1] == '[') {
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] >= 0x40 && text[i] <= 0x7E) return i + 1;
      if (text[i] < 0x20 || text[i] > 0x3F) return 0;
    }
  } else if (text[1] == ']') {
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == '\033') return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : 0;
      if (static_cast<unsigned char>(text[i]) < 0x20) return 0;
    }
  }
  return 0;
}

void append_number(std::string& out, const char* format, char32_t point) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(point));
  out += buffer.data();
}

void append_point(std::string& out, std::string_view sequence, Lines lines) {
  const char32_t point = decoded(sequence);
  if (point == '\n' || point == '\t') {
    out.push_back(lines == Lines::kMany ? static_cast<char>(point) : ' ');
  } else if (point < 0x20 || (point >= 0x7F && point <= 0x9F)) {
    append_number(out, "\\x%02x", point);
  } else if (is_in(kReordering, point)) {
    append_number(out, "\\u%04x", point);
  } else if (point == 0xFFFE || point == 0xFFFF) {
    out += kReplacement;
  } else {
    out += sequence;
  }
}

std::size_t columns_of_point(char32_t point) {
  if (is_in(kZeroWidth, point)) return 0;
  return is_in(kDoubleWidth, point) ? 2 : 1;
}

std::size_t length_at(std::string_view text) {
  const std::size_t length = run::utf8_length(text);
  return length == 0 ? 1 : length;
}

// How many bytes of text fit into columns; at least one point, so that a caller gets on.
std::size_t bytes_within(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  std::size_t used = 0;
  while (bytes < text.size()) {
    const std::size_t length = length_at(text.substr(bytes));
    const std::size_t width = columns_of_point(decoded(text.substr(bytes, length)));
    if (bytes > 0 && used + width > columns) break;
    used += width;
    bytes += length;
  }
  return bytes;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (const std::size_t skipped = sequence_length(text); skipped > 0) {
      text.remove_prefix(skipped);
      continue;
    }
    if (text[0] == '\r') {  // of a line end, or of a progress bar that writes over its line
      if (text.size() < 2 || text[1] != '\n') out.push_back(lines == Lines::kMany ? '\n' : ' ');
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length = run::utf8_length(text);
    if (length == 0) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    append_point(out, text.substr(0, length), lines);
    text.remove_prefix(length);
  }
  return out;
}

std::string escaped(std::string_view text, Lines lines) {
  std::string out;
  for (const char c : printable(text, lines)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

std::string escaped_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += escaped(line, Lines::kMany) + "\n";
  return out;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const std::size_t length = length_at(text);
    columns += columns_of_point(decoded(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return columns;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  while (columns_of(text) > columns) {
    std::size_t end = bytes_within(text, columns);
    std::size_t next = end;
    if (end < text.size() && text[end] == ' ') {
      ++next;
    } else if (const std::size_t blank = text.substr(0, end).rfind(' ');
               blank != std::string_view::npos && blank > 0) {
      end = blank;
      next = blank + 1;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(next);
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

std::string left(std::string_view text, std::size_t columns) {
  const std::size_t used = columns_of(text);
  return std::string(text) + std::string(used < columns ? columns - used : 0, ' ');
}

std::string right(std::string_view text, std::size_t columns) {
  const std::size_t used = columns_of(text);
  return std::string(used < columns ? columns - used : 0, ' ') + std::string(text);
}

std::string duration_text(std::uint64_t ns) {
  // Three digits of more than a thousand seconds would come with an exponent.
  if (ns >= 999 * kSecond_ns) return std::to_string((ns + kSecond_ns / 2) / kSecond_ns) + "s";
  return format_duration_ns(ns);
}

std::string seconds_text(std::uint64_t ns) {
  std::array<char, 40> buffer{};
  const std::uint64_t ms = ns / 1'000'000 + (ns % 1'000'000 >= 500'000 ? 1 : 0);
  std::snprintf(buffer.data(), buffer.size(), "%llu.%03u",
                static_cast<unsigned long long>(ms / 1000), static_cast<unsigned>(ms % 1000));
  return buffer.data();
}

std::string utc_text(std::uint64_t epoch_ns) {
  const auto seconds = static_cast<std::time_t>(epoch_ns / kSecond_ns);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "";
  std::array<char, 40> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return {buffer.data(), size};
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

}  // namespace sabot::drill::report
