// TOML by toml++; the only file that includes it.
//
// toml++ recurses for every level of nesting and, in destructors, for every part of a dotted key.
// Both depths are bounded before it sees the text: this runs in other people's threads, whose
// stacks we do not choose. A scenario needs four levels.
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

// The line that has too many dots for any key; 0 if none. Dots in texts and comments count too:
// telling them apart would take the parser that is to be protected.
std::size_t overlong_key_line(std::string_view text) {
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (std::count(line.begin(), line.end(), '.') > kDotsPerLineMax) return number;
  }
  return 0;
}

Value convert(const toml::node& node);

Value convert_table(const toml::table& table) {
  Value out;
  out.kind = Value::Kind::kTable;
  for (const auto& [key, node] : table) {
    Member member;
    member.key = std::string(key.str());
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
    out.text = text->get();
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
  if (const std::size_t line = overlong_key_line(text); line != 0) {
    diagnostics.add({line, 0}, "",
                    "more than " + std::to_string(kDotsPerLineMax) + " dots in one line");
    return std::nullopt;
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    diagnostics.add({parsed.error().source().begin.line, 0}, "",
                    "not valid TOML: " + std::string(parsed.error().description()));
    return std::nullopt;
  }
  return convert_table(parsed.table());
}

}  // namespace sabot::scenario::read
