// TOML by toml++; the only file that includes it.
//
// This runs in other people's processes and threads, so toml++ is kept off the paths on which
// version 3.3 misbehaves. Its look-up of Unicode white space is undefined for most letters, and
// reached by any that stands outside of quotes (corpus: letter-outside-quotes.toml): it gets pure
// ASCII, with every other byte spelled "~XX", and its answers are spelled back. It recurses for
// every level of nesting and, in destructors, for every part of a dotted key: both depths are
// bounded. A scenario needs four.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "scenario/read/readers.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::ptrdiff_t kDotsPerLineMax = 128;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kMark = '~';
constexpr std::string_view kHex = "0123456789ABCDEF";

// What is wrong, with its line; nothing if the text may be parsed.
struct Unfit {
  std::size_t line;
  std::string problem;
};

// Dots in texts and comments count too: telling them apart would take the parser that is protected.
std::optional<Unfit> find_unfit(std::string_view text) {
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (std::count(line.begin(), line.end(), '.') > kDotsPerLineMax)
      return Unfit{number, "more than " + std::to_string(kDotsPerLineMax) + " dots in one line"};
    // The only other way to get a mark into a text; without it spelling back is exact.
    const std::string lowered = lower(line);
    if (lowered.find("\\u007e") != std::string::npos ||
        lowered.find("\\u0000007e") != std::string::npos)
      return Unfit{number, "an escaped '~'; write it as it is"};
  }
  return std::nullopt;
}

std::string spell_in_ascii(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == kMark || byte >= 0x80) {
      out += {kMark, kHex[byte >> 4U], kHex[byte & 0xFU]};
    } else {
      out += c;
    }
  }
  return out;
}

std::string spell_back(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_spelled = text[i] == kMark && i + 2 < text.size();
    const std::size_t high = is_spelled ? kHex.find(text[i + 1]) : std::string_view::npos;
    const std::size_t low = is_spelled ? kHex.find(text[i + 2]) : std::string_view::npos;
    if (high != std::string_view::npos && low != std::string_view::npos) {
      out += static_cast<char>(high << 4U | low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// toml++ quotes the one character that it did not expect, which may be the mark of a longer one.
std::string describe_error(const toml::parse_error& error) {
  std::string text = spell_back(error.description());
  constexpr std::string_view kLoneMark = "'~'";
  const std::size_t at = text.find(kLoneMark);
  if (at != std::string::npos)
    text.replace(at, kLoneMark.size(), "'~' or a character outside ASCII");
  return text;
}

Value convert(const toml::node& node);

Value convert_table(const toml::table& table) {
  Value out;
  out.kind = Value::Kind::kTable;
  for (const auto& [key, node] : table) {
    Member member;
    member.key = spell_back(key.str());
    member.place.line = key.source().begin.line;
    member.value = convert(node);
    out.members.push_back(std::move(member));
  }
  return out;
}

Value convert(const toml::node& node) {
  Value out;
  if (const toml::table* table = node.as_table()) {
    out = convert_table(*table);
  } else if (const toml::array* array = node.as_array()) {
    out.kind = Value::Kind::kList;
    for (const toml::node& item : *array) out.items.push_back(convert(item));
  } else if (const auto* text = node.as_string()) {
    out.kind = Value::Kind::kText;
    out.text = spell_back(text->get());
  } else if (const auto* whole = node.as_integer()) {
    out.kind = Value::Kind::kWhole;
    out.whole = whole->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.kind = Value::Kind::kNumber;
    out.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = Value::Kind::kBoolean;
    out.boolean = boolean->get();
  } else {
    out.kind = Value::Kind::kOther;
  }
  out.place.line = node.source().begin.line;
  return out;
}

}  // namespace

std::optional<Value> read_toml(std::string_view text, Diagnostics& diagnostics) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    text.remove_prefix(kByteOrderMark.size());
  if (const std::optional<Unfit> unfit = find_unfit(text)) {
    diagnostics.add({unfit->line, 0}, "", unfit->problem);
    return std::nullopt;
  }
  const std::string spelled = spell_in_ascii(text);
  const toml::parse_result parsed = toml::parse(std::string_view(spelled));
  if (!parsed) {
    diagnostics.add({parsed.error().source().begin.line, 0}, "",
                    "not valid TOML: " + describe_error(parsed.error()));
    return std::nullopt;
  }
  return convert_table(parsed.table());
}

}  // namespace sabot::scenario::read
