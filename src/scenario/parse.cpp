// The front door: limits, then reader, then builder.
#include "scenario/parse.hpp"

#include <optional>

#include "base/units.hpp"
#include "scenario/read/builder.hpp"
#include "scenario/read/readers.hpp"

namespace sabot::scenario {
namespace {

Error refuse(std::string_view name, const std::string& problem) {
  return Error(Code::kInvalidArgument, std::string(name) + ": " + problem);
}

// The length of the UTF-8 sequence at the front of text, 0 if there is none (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF). Precondition: text is not empty.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  return length;
}

// Where the first byte is that a text file cannot have, and what is wrong with it.
struct BadByte {
  std::size_t line;
  std::string_view problem;
};

std::optional<BadByte> find_bad_byte(std::string_view text) {
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return BadByte{line, "not UTF-8 text"};
    if (text[at] == '\0') return BadByte{line, "a zero byte"};
    if (text[at] == '\n') ++line;
    at += length;
  }
  return std::nullopt;
}

}  // namespace

Status check_size(std::uint64_t bytes, std::string_view name) {
  if (bytes == 0)
    return refuse(name, "empty; a scenario begins with 'sabot = 1' and has at least one [[fault]]");
  if (bytes > kScenarioBytesMax)
    return refuse(name, std::to_string(bytes) + " bytes are too many for a scenario (at most " +
                            format_bytes(kScenarioBytesMax) + "); is this the right file?");
  return {};
}

Status check_text(std::string_view text, std::string_view name) {
  SABOT_TRY(check_size(text.size(), name));
  if (const std::optional<BadByte> bad = find_bad_byte(text)) {
    return refuse(std::string(name) + ":" + std::to_string(bad->line),
                  std::string(bad->problem) + "; is this a binary file? A scenario is a text file");
  }
  return {};
}

Result<Scenario> parse_toml(std::string_view text, std::string_view filename) {
  SABOT_TRY(check_text(text, filename));
  read::Diagnostics diagnostics({read::Source::Form::kFile, filename, text});
  const std::optional<read::Value> root = read::read_toml(text, diagnostics);
  if (!root) return diagnostics.error();
  Scenario scenario = read::build_scenario(*root, {"when.", "do.", "fault-"}, diagnostics);
  if (!diagnostics.empty()) return diagnostics.error();
  return scenario;
}

Result<Scenario> parse_line(std::string_view text, std::string_view origin) {
  if (text.size() > kLineBytesMax)
    return refuse(origin, std::to_string(text.size()) +
                              " bytes are too many for one line (at most " +
                              format_bytes(kLineBytesMax) + "); write a scenario file");
  if (const std::optional<BadByte> bad = find_bad_byte(text))
    return refuse(origin, std::string(bad->problem));
  read::Diagnostics diagnostics({read::Source::Form::kLine, origin, text});
  const std::optional<read::Value> root = read::read_line(text, diagnostics);
  if (!root) return diagnostics.error();
  Scenario scenario = read::build_scenario(*root, {"", "", "line-"}, diagnostics);
  if (!diagnostics.empty()) return diagnostics.error();
  return scenario;
}

}  // namespace sabot::scenario
