// The action of a fault, checked against its row in the grammar.
#include <array>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "scenario/act.hpp"
#include "scenario/names.hpp"
#include "scenario/read/builder.hpp"
#include "scenario/read/field.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario::read {
namespace {

using ArgumentValue = decltype(Argument::value);

std::string list_of_words(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += '"' + std::string(words[i]) + '"';
  }
  return text;
}

std::optional<ArgumentValue> read_result(const Field& field) {
  const std::optional<std::string> name = read_text(field);
  if (!name) return std::nullopt;
  const std::optional<int> result = abi::find_result(*name);
  if (!result) {
    field.refuse("no result code is called " + quoted(*name) +
                 suggestion(*name, abi::result_names()));
    return std::nullopt;
  }
  if (*result == kResultSuccess) {
    field.refuse(quoted(*name) + " is not an error; a call that succeeds needs no fault");
    return std::nullopt;
  }
  if (*result == kResultInProgress) {
    field.diagnostics.warn(field.value.place, field.path,
                           "'InProgress' is not an error for NCCL: callers of a non-blocking "
                           "communicator poll, others may take it for a failure");
  }
  return ArgumentValue(static_cast<std::uint64_t>(*result));
}

std::optional<ArgumentValue> read_word(const Field& field, const ParameterRow& row) {
  const bool is_text = field.value.is(Value::Kind::kText);
  if (is_text) {
    for (const std::string_view word : row.words)
      if (word == field.value.text) return ArgumentValue(field.value.text);
  }
  const std::optional<std::string_view> close =
      is_text ? nearest(field.value.text, row.words) : std::nullopt;
  field.refuse("expected " + list_of_words(row.words) + "; found " + describe(field.value) +
               (close ? "; did you mean '" + std::string(*close) + "'?" : ""));
  return std::nullopt;
}

std::optional<ArgumentValue> read_word_or_whole(const Field& field, const ParameterRow& row) {
  constexpr std::int64_t kExitCodeMax = 255;
  if (!field.value.is(Value::Kind::kWhole)) return read_word(field, row);
  if (field.value.whole >= 0 && field.value.whole <= kExitCodeMax)
    return ArgumentValue(static_cast<std::uint64_t>(field.value.whole));
  field.refuse_type();
  return std::nullopt;
}

template <typename T>
std::optional<ArgumentValue> wrapped(std::optional<T> value) {
  if (!value) return std::nullopt;
  return ArgumentValue(*std::move(value));
}

std::optional<ArgumentValue> read_bytes(const Field& field) {
  const std::optional<NumberSet> set = read_numbers(field, NumberStyle::kBytes);
  if (!set) return std::nullopt;
  if (set->single().value_or(0) > 0) return ArgumentValue(*set->single());
  field.refuse_type();
  return std::nullopt;
}

std::optional<ArgumentValue> read_true(const Field& field) {
  const bool is_bare = field.value.is(Value::Kind::kNothing);  // "=skip" in the one-line form
  if (is_bare || (field.value.is(Value::Kind::kBoolean) && field.value.boolean))
    return ArgumentValue(std::string("true"));
  field.refuse_type();
  return std::nullopt;
}

std::optional<ArgumentValue> read_argument(const Field& field, const ParameterRow& row) {
  switch (row.shape) {
    case Shape::kResult: return read_result(field);
    case Shape::kDuration: return wrapped(read_duration_ns(field));
    case Shape::kDurationOrTrue:
      if (field.value.is(Value::Kind::kText)) return wrapped(read_duration_ns(field));
      return read_true(field);
    case Shape::kTrue: return read_true(field);
    case Shape::kWord: return read_word(field, row);
    case Shape::kWordOrWhole: return read_word_or_whole(field, row);
    case Shape::kWhole: return wrapped(read_whole(field, 1));
    case Shape::kFactor: return wrapped(read_number(field));
    case Shape::kNumbers: return wrapped(read_numbers(field, NumberStyle::kPlain));
    case Shape::kBytes: return read_bytes(field);
    case Shape::kReplacement:
      if (field.value.is(Value::Kind::kWhole)) return wrapped(read_whole(field, 0));
      return wrapped(read_text(field));
  }
  return std::nullopt;
}

// The one action of the table; null, with a report, if there is none or more than one.
const ActionRow* find_the_action(const Value& table, const Prefixes& prefixes,
                                 Diagnostics& diagnostics) {
  const ActionRow* found = nullptr;
  for (const Member& member : table.members) {
    const ActionRow* row = find_action(member.key);
    if (row == nullptr) continue;
    if (found != nullptr) {
      diagnostics.add(member.place, std::string(prefixes.action) + member.key,
                      "a fault has one action, and '" + std::string(found->word) +
                          "' is already given; write a second fault");
      return nullptr;
    }
    found = row;
  }
  if (found != nullptr) return found;
  std::vector<std::string_view> words;
  for (const ActionRow& row : action_rows()) words.push_back(row.word);
  for (const Member& member : table.members) {
    diagnostics.add(member.place, std::string(prefixes.action) + member.key,
                    "no action is called " + quoted(member.key) + suggestion(member.key, words));
  }
  if (table.members.empty())
    diagnostics.add(table.place, "do", "no action; known here: " + join(words, ", "));
  return nullptr;
}

void refuse_unknown_parameters(const Value& table, const ActionRow& row, const Prefixes& prefixes,
                               Diagnostics& diagnostics) {
  std::vector<std::string_view> keys;
  for (const ParameterRow& parameter : row.parameters) keys.push_back(parameter.key);
  for (const Member& member : table.members) {
    if (find_parameter(row, member.key) != nullptr) continue;
    const ActionRow* owner = nullptr;
    for (const ActionRow& other : action_rows())
      if (owner == nullptr && find_parameter(other, member.key) != nullptr) owner = &other;
    const std::string problem = owner != nullptr
                                    ? "belongs to the action '" + std::string(owner->word) +
                                          "', not to '" + std::string(row.word) + "'"
                                    : "unknown key" + suggestion(member.key, keys);
    diagnostics.add(member.place, std::string(prefixes.action) + member.key, problem);
  }
}

// What a mismatched call passes instead must be a value of the argument that differs.
void check_replacement(const Action& action, const Value& table, const Prefixes& prefixes,
                       Diagnostics& diagnostics) {
  const Argument* to = action.find("to");
  const auto* what = std::get_if<std::string>(&action.arguments.front().value);
  if (to == nullptr || what == nullptr) return;
  const auto* name = std::get_if<std::string>(&to->value);
  const bool takes_number = *what == "count" || *what == "root";
  bool fits = takes_number == (name == nullptr);
  if (fits && *what == "datatype") fits = abi::find_datatype(*name).has_value();
  if (fits && *what == "redop") fits = abi::find_redop(*name).has_value();
  if (fits && *what == "call") fits = abi::find_function(*name).has_value();
  if (fits) return;
  const Member* member = table.find("to");
  diagnostics.add(member->place, std::string(prefixes.action) + "to",
                  "expected " + (takes_number ? "a whole number" : "the name of a " + *what) +
                      ", because the " + *what + " differs; found " + describe(member->value));
}

// Amounts with which the action would do nothing, or more than it can.
void check_amounts(const Action& action, const Value& table, const Prefixes& prefixes,
                   Diagnostics& diagnostics) {
  const auto refuse = [&](std::string_view key, const std::string& problem) {
    diagnostics.add(table.find(key)->value.place, std::string(prefixes.action) + std::string(key),
                    problem);
  };
  const auto is_zero = [&action](std::string_view key) {
    const Argument* argument = action.find(key);
    const auto* number =
        argument == nullptr ? nullptr : std::get_if<std::uint64_t>(&argument->value);
    return number != nullptr && *number == 0;
  };
  const Act act = act_of(action);
  if (action.kind == ActionKind::kDelay && is_zero("delay") && act.jitter_ns == 0)
    refuse("delay", "a delay of no time changes nothing");
  if (action.kind == ActionKind::kHang && is_zero("hang"))
    refuse("hang", "a hang of no time changes nothing; write true for one without a limit");
  if (is_zero("jitter")) refuse("jitter", "a jitter of no time changes nothing; leave it out");
  if (action.kind == ActionKind::kLink) {
    if (is_zero("by")) refuse("by", "a delay of no time changes nothing");
    if (is_zero("for"))
      refuse("for", "a link that fails for no time does not fail; leave it out for no limit");
    const Argument* peers = action.find("peer");
    if (peers != nullptr && std::get<NumberSet>(peers->value).low() >= kLinkPeersMax)
      refuse("peer", "only the ranks 0 to " + std::to_string(kLinkPeersMax - 1) +
                         " can be named; leave it out for all peers");
  }
  if (act.elements > kCorruptElementsMax)
    refuse("elements", "at most " + std::to_string(kCorruptElementsMax) + " elements are changed");
  if (action.find("by") != nullptr && action.kind == ActionKind::kCorrupt && act.factor == 1)
    refuse("by", "a factor of 1 changes nothing");
  const bool is_stale_input = act.corrupt == CorruptKind::kStale && act.moment == Moment::kBefore;
  if (action.kind == ActionKind::kCorrupt && is_stale_input)
    refuse("corrupt", "only output can be stale; add at = \"after\"");
}

void check_parameters(const Action& action, const Value& table, const Prefixes& prefixes,
                      Diagnostics& diagnostics) {
  // key goes with when_word only, and then must be given; "" is any word.
  const auto require = [&](std::string_view when_word, std::string_view key) {
    const auto* word = std::get_if<std::string>(&action.arguments.front().value);
    const bool applies = word != nullptr && (when_word.empty() || *word == when_word);
    const bool is_given = action.find(key) != nullptr;
    const Member* member = table.find(key);
    if (applies && !is_given)
      diagnostics.add(table.place, std::string(prefixes.action) + std::string(key),
                      "missing; " + quoted(*word) + " needs it");
    if (!applies && is_given && word != nullptr)
      diagnostics.add(member->place, std::string(prefixes.action) + std::string(key),
                      "makes no sense with " + quoted(*word));
  };
  if (action.kind == ActionKind::kMismatch) {
    require("", "to");
    check_replacement(action, table, prefixes, diagnostics);
  }
  if (action.kind == ActionKind::kCorrupt) require("scale", "by");
  if (action.kind == ActionKind::kLink) {
    require("delay", "by");
    require("throttle", "rate");
  }
  if (action.find("distribution") != nullptr && action.find("jitter") == nullptr)
    diagnostics.add(table.find("distribution")->place,
                    std::string(prefixes.action) + "distribution", "needs 'jitter'");
  check_amounts(action, table, prefixes, diagnostics);
}

}  // namespace

Action build_action(const Value& table, const Prefixes& prefixes, Diagnostics& diagnostics) {
  Action action;
  const ActionRow* row = find_the_action(table, prefixes, diagnostics);
  if (row == nullptr) return action;
  action.kind = row->kind;
  refuse_unknown_parameters(table, *row, prefixes, diagnostics);
  for (const ParameterRow& parameter : row->parameters) {
    const Member* member = table.find(parameter.key);
    if (member == nullptr) continue;
    const Field field{member->value, std::string(prefixes.action) + member->key,
                      expected_text(parameter.shape), diagnostics};
    std::optional<ArgumentValue> value = read_argument(field, parameter);
    if (!value) continue;
    const auto* word = std::get_if<std::string>(&*value);
    if (word != nullptr && !parameter.default_word.empty() && *word == parameter.default_word)
      continue;
    action.arguments.push_back({parameter.key, std::move(*value)});
  }
  if (!action.arguments.empty() && action.arguments.front().key == row->word)
    check_parameters(action, table, prefixes, diagnostics);
  return action;
}

}  // namespace sabot::scenario::read
