// Typed reading of values.
#include "scenario/read/field.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/units.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::size_t kKnownListMax = 12;  // a longer list hides the answer instead of giving it

// The text of one number or set; nothing if the value is neither a number nor a text.
std::optional<std::string> number_text(const Value& value) {
  if (value.is(Value::Kind::kWhole)) return std::to_string(value.whole);
  if (value.is(Value::Kind::kText)) return value.text;
  return std::nullopt;
}

std::optional<NumberSet> read_number_set(const Field& field, const Value& value,
                                         NumberStyle style) {
  const std::optional<std::string> text = number_text(value);
  if (!text) {
    Field{value, field.path, field.expected, field.diagnostics}.refuse_type();
    return std::nullopt;
  }
  if (text->size() > kTextMax) {
    field.refuse("longer than " + std::to_string(kTextMax) + " characters");
    return std::nullopt;
  }
  Result<NumberSet> set = NumberSet::parse(*text, style);
  if (!set.ok()) {
    field.diagnostics.add(value.place, field.path, set.error().message());
    return std::nullopt;
  }
  return *std::move(set);
}

}  // namespace

void Field::refuse_type() const {
  if (value.is(Value::Kind::kNothing)) {
    refuse("has no value; expected " + std::string(expected));
  } else {
    refuse("expected " + std::string(expected) + "; found " + describe(value));
  }
}

std::optional<std::string> read_text(const Field& field) {
  if (!field.value.is(Value::Kind::kText)) {
    field.refuse_type();
    return std::nullopt;
  }
  const std::string& text = field.value.text;
  if (text.empty()) {
    field.refuse("expected " + std::string(field.expected) + "; found an empty text");
    return std::nullopt;
  }
  if (text.size() > kTextMax) {
    field.refuse("longer than " + std::to_string(kTextMax) + " characters");
    return std::nullopt;
  }
  return text;
}

std::optional<bool> read_boolean(const Field& field) {
  if (field.value.is(Value::Kind::kBoolean)) return field.value.boolean;
  field.refuse_type();
  return std::nullopt;
}

std::optional<std::uint64_t> read_whole(const Field& field, std::uint64_t low) {
  const bool is_whole = field.value.is(Value::Kind::kWhole);
  if (is_whole && field.value.whole >= 0 && static_cast<std::uint64_t>(field.value.whole) >= low)
    return static_cast<std::uint64_t>(field.value.whole);
  field.refuse_type();
  return std::nullopt;
}

std::optional<double> read_number(const Field& field) {
  if (field.value.is(Value::Kind::kWhole)) return static_cast<double>(field.value.whole);
  if (field.value.is(Value::Kind::kNumber) && std::isfinite(field.value.number))
    return field.value.number;
  field.refuse_type();
  return std::nullopt;
}

std::optional<std::uint64_t> read_duration_ns(const Field& field) {
  if (!field.value.is(Value::Kind::kText)) {
    field.refuse_type();
    return std::nullopt;
  }
  if (field.value.text.size() > kTextMax) {
    field.refuse("longer than " + std::to_string(kTextMax) + " characters");
    return std::nullopt;
  }
  const Result<std::uint64_t> duration = parse_duration_ns(field.value.text);
  if (!duration.ok()) {
    field.refuse(duration.error().message());
    return std::nullopt;
  }
  if (*duration > kDurationMaxNs) {
    field.refuse(quoted(field.value.text) + " is longer than 30 days");
    return std::nullopt;
  }
  return *duration;
}

std::optional<NumberSet> read_numbers(const Field& field, NumberStyle style) {
  NumberSet any;
  if (field.value.is(Value::Kind::kList)) {
    if (field.value.items.size() > kListMax) {
      field.refuse("a list of more than " + std::to_string(kListMax) + " numbers; use a range");
      return std::nullopt;
    }
    for (const Value& item : field.value.items) {
      const std::optional<NumberSet> set = read_number_set(field, item, style);
      if (!set) return std::nullopt;
      any.unite(*set);
    }
    if (field.value.items.empty()) {
      field.refuse("an empty list matches nothing; leave the key out to match everything");
      return std::nullopt;
    }
  } else {
    const std::optional<NumberSet> set = read_number_set(field, field.value, style);
    if (!set) return std::nullopt;
    any = *set;
  }
  if (any.intervals().size() > kIntervalsMax) {
    field.refuse("more than " + std::to_string(kIntervalsMax) + " separate ranges");
    return std::nullopt;
  }
  if (any.empty()) {
    field.refuse("no number satisfies " + quoted(number_text(field.value).value_or("this list")));
    return std::nullopt;
  }
  return any;
}

std::optional<std::vector<Word>> read_words(const Field& field) {
  std::vector<Word> words;
  const bool is_list = field.value.is(Value::Kind::kList);
  if (is_list && field.value.items.empty()) {
    field.refuse("an empty list matches nothing; leave the key out to match everything");
    return std::nullopt;
  }
  const std::span<const Value> values =
      is_list ? std::span<const Value>(field.value.items) : std::span<const Value>(&field.value, 1);
  for (const Value& value : values) {
    const std::optional<std::string> text =
        read_text(Field{value, field.path, field.expected, field.diagnostics});
    if (!text) return std::nullopt;
    for (const std::string_view word : split(*text, '|')) {
      if (trim(word).empty()) {
        field.diagnostics.add(value.place, field.path,
                              "an alternative in " + quoted(*text) + " is empty");
        return std::nullopt;
      }
      words.push_back({std::string(trim(word)), value.place});
    }
  }
  if (words.size() > kListMax) {
    field.refuse("a list of more than " + std::to_string(kListMax) + " words");
    return std::nullopt;
  }
  return words;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  if (const std::optional<std::string_view> close = nearest(word, known))
    return "; did you mean '" + std::string(*close) + "'?";
  if (known.size() > kKnownListMax) return "";
  return "; known here: " + join(known, ", ");
}

void refuse_unknown_keys(const Value& table, std::string_view prefix,
                         std::span<const std::string_view> keys, Diagnostics& diagnostics) {
  for (const Member& member : table.members) {
    if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
    diagnostics.add(member.place, std::string(prefix) + member.key,
                    "unknown key" + suggestion(member.key, keys));
  }
}

}  // namespace sabot::scenario::read
