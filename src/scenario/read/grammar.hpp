// The grammar of scenarios as tables: every key with what it expects, what it means and an example.
//
// Key lists, "did you mean", error texts, the one-line form, the printers and the reference page
// derive from these rows; adding a condition is one row here and one case where it is read
// (read/trigger.cpp) and where it is decided (decider.cpp). Adding an action is one row, and one
// case where it becomes an Act (act.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "scenario/scenario.hpp"

namespace sabot::scenario::read {

struct KeyRow {
  std::string_view key;
  std::string_view expected;  // completes "expected …"
  std::string_view meaning;
  std::string_view example;  // as TOML
};

std::span<const KeyRow> scenario_rows();
std::span<const KeyRow> fault_rows();
// Row i is the key of the condition of value i.
std::span<const KeyRow> trigger_rows();
std::span<const KeyRow> expect_rows();

// What the key of that name expects. Precondition: rows has it.
std::string_view expected_of(std::span<const KeyRow> rows, std::string_view key);

const KeyRow& row_of(Condition condition);
inline std::string_view key_of(Condition condition) { return row_of(condition).key; }

// What the value of a parameter may be.
enum class Shape : std::uint8_t {
  kResult,          // an error code by name
  kDuration,        // "200ms"
  kDurationOrTrue,  // "200ms", or true for no limit
  kTrue,            // true, nothing else
  kWord,            // one of `words`
  kWordOrWhole,     // one of `words`, or a whole number up to 255
  kWhole,           // a whole number
  kFactor,          // a decimal number
  kNumbers,         // a set of numbers
  kBytes,           // a size
  kReplacement,     // what a mismatched call uses instead: a number or a name
};

struct ParameterRow {
  std::string_view key;
  Shape shape;
  std::span<const std::string_view> words;
  std::string_view default_word;  // leaving it out means this
  std::string_view meaning;
  std::string_view example;  // as TOML, the value only
};

struct ActionRow {
  ActionKind kind;
  std::string_view word;
  std::string_view meaning;
  // The first parameter is named like the action and is always given.
  std::span<const ParameterRow> parameters;
};

std::span<const ActionRow> action_rows();
const ActionRow& row_of(ActionKind kind);
const ActionRow* find_action(std::string_view word);
const ParameterRow* find_parameter(const ActionRow& action, std::string_view key);
std::string_view expected_text(Shape shape);

struct OutcomeRow {
  Outcome outcome;
  std::string_view word;
  std::string_view meaning;
};
std::span<const OutcomeRow> outcome_rows();

}  // namespace sabot::scenario::read
