// Printing, driven by the same rows as parsing.
//
// Every condition becomes one Printed: a bare token (number, true) or a text. TOML quotes every
// text; the one-line form quotes only what would read as something else.
#include "scenario/print.hpp"

#include <array>
#include <charconv>
#include <vector>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "scenario/names.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario {
namespace {

// One value: texts.size() > 1 is a list.
struct Printed {
  bool is_bare = false;
  std::vector<std::string> texts;
};

Printed bare(std::string text) { return {true, {std::move(text)}}; }
Printed text(std::string value) { return {false, {std::move(value)}}; }

std::string print_double(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string out(buffer.data(), end.ptr);
  // TOML tells whole from decimal by the point.
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

Printed print_numbers(const NumberSet& set, NumberStyle style) {
  if (const std::optional<std::uint64_t> single = set.single();
      single && style == NumberStyle::kPlain)
    return bare(std::to_string(*single));
  return text(set.to_string(style));
}

Printed print_comms(const std::vector<CommTerm>& terms) {
  Printed out;
  for (const CommTerm& term : terms) {
    switch (term.kind) {
      case CommTerm::Kind::kLabel: out.texts.push_back(term.pattern); break;
      case CommTerm::Kind::kName: out.texts.push_back("name:" + term.pattern); break;
      case CommTerm::Kind::kSize: {
        // A size is told from a label by its operator; one without gets "=".
        const std::string size = term.size.to_string(NumberStyle::kPlain);
        const bool has_operator = size.find_first_of("<>!") == 0;
        out.texts.push_back(has_operator ? size : "=" + size);
        break;
      }
    }
  }
  return out;
}

Printed print_bits(std::uint32_t bits, std::string_view (*name)(unsigned)) {
  Printed out;
  for (unsigned bit = 0; bits >> bit != 0; ++bit)
    if ((bits >> bit & 1U) != 0) out.texts.emplace_back(name(bit));
  return out;
}

std::string_view datatype_bit_name(unsigned bit) {
  return abi::datatype_name(static_cast<int>(bit));
}

Printed print_calls(const std::vector<CallTerm>& terms) {
  Printed out;
  for (const CallTerm& term : terms) out.texts.emplace_back(word_of(term));
  return out;
}

// Precondition: the trigger has the condition.
Printed print_condition(const Trigger& trigger, Condition condition) {
  constexpr NumberStyle kPlain = NumberStyle::kPlain;
  switch (condition) {
    case Condition::kCall: return print_calls(trigger.call);
    case Condition::kRank: return print_numbers(trigger.rank, kPlain);
    case Condition::kWorldRank: return print_numbers(trigger.world_rank, kPlain);
    case Condition::kHost: return {false, trigger.host};
    case Condition::kComm: return print_comms(trigger.comm);
    case Condition::kBytes: return print_numbers(trigger.bytes, NumberStyle::kBytes);
    case Condition::kCount: return print_numbers(trigger.count, kPlain);
    case Condition::kDatatype: return print_bits(trigger.datatypes, datatype_bit_name);
    case Condition::kRedop: return print_bits(trigger.redops, redop_bit_name);
    case Condition::kRoot: return print_numbers(trigger.root, kPlain);
    case Condition::kPeer: return print_numbers(trigger.peer, kPlain);
    case Condition::kAttempt: return print_numbers(trigger.attempt, kPlain);
    case Condition::kCaptured: return bare(*trigger.captured ? "true" : "false");
    case Condition::kAfter: return text(duration_text(*trigger.after_ns));
    case Condition::kAfterFirstCall: return text(duration_text(*trigger.after_first_call_ns));
    case Condition::kSwitch: return text(trigger.switch_name);
    case Condition::kNth: return bare(std::to_string(*trigger.nth));
    case Condition::kRange: return text(trigger.range.to_string(kPlain));
    case Condition::kEvery: return bare(std::to_string(*trigger.every));
    case Condition::kProbability: return bare(print_double(*trigger.probability));
  }
  return {};
}

Printed print_argument(const Argument& argument, const read::ParameterRow& row) {
  using read::Shape;
  if (const auto* factor = std::get_if<double>(&argument.value)) return bare(print_double(*factor));
  if (const auto* set = std::get_if<NumberSet>(&argument.value))
    return print_numbers(*set, NumberStyle::kPlain);
  if (const auto* word = std::get_if<std::string>(&argument.value)) {
    const bool is_true =
        *word == "true" && (row.shape == Shape::kTrue || row.shape == Shape::kDurationOrTrue);
    return is_true ? bare("true") : text(*word);
  }
  const std::uint64_t number = std::get<std::uint64_t>(argument.value);
  switch (row.shape) {
    case Shape::kResult: {
      constexpr std::size_t kPrefix = 4;  // "nccl"
      return text(std::string(abi::result_name(static_cast<int>(number)).substr(kPrefix)));
    }
    case Shape::kDuration:
    case Shape::kDurationOrTrue: return text(duration_text(number));
    case Shape::kBytes: return text(format_bytes(number));
    default: return bare(std::to_string(number));
  }
}

std::string toml_text(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_value(const Printed& value) {
  if (value.is_bare) return value.texts[0];
  if (value.texts.size() == 1) return toml_text(value.texts[0]);
  std::string out = "[";
  for (std::size_t i = 0; i < value.texts.size(); ++i)
    out += (i == 0 ? "" : ", ") + toml_text(value.texts[i]);
  return out + "]";
}

std::string line_text(const std::string& value) {
  const bool is_plain = value.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789_./*?:-") == std::string::npos;
  // Without a letter it could read as a number; "3-7" and "3.." do not, and are common.
  const bool has_letter = value.find_first_not_of("0123456789_.eE+-") != std::string::npos;
  const bool is_range =
      value.find('-', 1) != std::string::npos || value.find("..") != std::string::npos;
  const bool is_safe = has_letter || (is_range && value.find_first_of("eE") == std::string::npos);
  if (is_plain && is_safe && value != "true" && value != "false") return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string line_value(const Printed& value) {
  if (value.is_bare) return value.texts[0];
  if (value.texts.size() == 1) return line_text(value.texts[0]);
  std::string out = "[";
  for (std::size_t i = 0; i < value.texts.size(); ++i)
    out += (i == 0 ? "" : ",") + line_text(value.texts[i]);
  return out + "]";
}

// "bytes>=1MiB" where the value is one comparison, "rank=1" elsewhere.
std::string line_condition(std::string_view key, Condition condition, const Printed& value) {
  const bool is_numeric = condition != Condition::kHost && condition != Condition::kSwitch;
  const bool is_comparison = is_numeric && !value.is_bare && value.texts.size() == 1 &&
                             value.texts[0].find_first_of("<>!") == 0 &&
                             value.texts[0].find(',') == std::string::npos;
  if (is_comparison) return std::string(key) + value.texts[0];
  return std::string(key) + "=" + line_value(value);
}

template <typename Visit>
void for_each_condition(const Trigger& trigger, Visit visit) {
  const std::uint32_t present = conditions_of(trigger);
  for (std::size_t i = 0; i < kConditionCount; ++i) {
    const auto condition = static_cast<Condition>(i);
    if ((present & bit_of(condition)) != 0)
      visit(read::key_of(condition), condition, print_condition(trigger, condition));
  }
}

std::string toml_fault(const Fault& fault) {
  std::string when;
  for_each_condition(fault.when, [&when](std::string_view key, Condition, const Printed& value) {
    when += (when.empty() ? " " : ", ") + std::string(key) + " = " + toml_value(value);
  });
  const read::ActionRow& row = read::row_of(fault.action.kind);
  std::string action;
  for (const Argument& argument : fault.action.arguments) {
    action += (action.empty() ? " " : ", ") + std::string(argument.key) + " = " +
              toml_value(print_argument(argument, *read::find_parameter(row, argument.key)));
  }
  return "[[fault]]\nname = " + toml_text(fault.name) + "\nwhen = {" + when + " }\ndo = {" +
         action + " }\n" +
         (fault.budget == 0 ? "" : "budget = " + std::to_string(fault.budget) + "\n") +
         (fault.is_armed ? "" : "armed = false\n");
}

std::string toml_expectation(const Expectation& expect) {
  std::string out = "[expect]\n";
  if (expect.outcomes != 0) out += "outcome = " + toml_text(outcome_text(expect.outcomes)) + "\n";
  if (expect.detected_within_ns)
    out += "detected_within = \"" + duration_text(*expect.detected_within_ns) + "\"\n";
  if (expect.finished_within_ns)
    out += "finished_within = \"" + duration_text(*expect.finished_within_ns) + "\"\n";
  std::string fired;
  for (const ExpectedFirings& each : expect.fired)
    fired +=
        (fired.empty() ? " " : ", ") + toml_text(each.fault) + " = " + std::to_string(each.count);
  if (!fired.empty()) out += "fired = {" + fired + " }\n";
  if (expect.check) out += std::string("check = ") + (*expect.check ? "true" : "false") + "\n";
  const auto add_numbers = [&out](std::string_view key, const NumberSet& set) {
    if (!set.empty())
      out += std::string(key) + " = " + toml_value(print_numbers(set, NumberStyle::kPlain)) + "\n";
  };
  add_numbers("steps_lost", expect.steps_lost);
  add_numbers("attempts", expect.attempts);
  return out;
}

}  // namespace

std::string duration_text(std::uint64_t ns) {
  struct Unit {
    std::uint64_t ns;
    std::string_view name;
  };
  constexpr std::array<Unit, 4> kUnits{
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1000, "us"}, {1, "ns"}}};
  for (const Unit& unit : kUnits)
    if (ns % unit.ns == 0) return std::to_string(ns / unit.ns) + std::string(unit.name);
  return "";
}

std::string outcome_text(std::uint32_t outcomes) {
  std::vector<std::string_view> words;
  for (const read::OutcomeRow& row : read::outcome_rows())
    if ((outcomes & bit_of(row.outcome)) != 0) words.push_back(row.word);
  return join(words, "|");
}

std::string condition_text(const Trigger& trigger, Condition condition) {
  if ((conditions_of(trigger) & bit_of(condition)) == 0) return "";
  const Printed printed = print_condition(trigger, condition);
  return join(std::vector<std::string_view>(printed.texts.begin(), printed.texts.end()), "|");
}

std::string to_line(const Fault& fault) {
  std::string conditions;
  const auto add = [&conditions](const std::string& one) {
    conditions += (conditions.empty() ? "" : ",") + one;
  };
  for_each_condition(fault.when,
                     [&add](std::string_view key, Condition condition, const Printed& value) {
                       if (condition != Condition::kCall)
                         add(line_condition(key, condition, value));
                     });
  if (fault.budget != 0) add("budget=" + std::to_string(fault.budget));
  if (!fault.is_armed) add("armed=false");
  return fault.name + ": " + to_string(fault.when.call) +
         (conditions.empty() ? "" : "[" + conditions + "]") + "=" + to_line(fault.action);
}

std::string to_line(const Action& action) {
  const read::ActionRow& row = read::row_of(action.kind);
  std::string arguments;
  for (const Argument& argument : action.arguments) {
    const std::string value =
        line_value(print_argument(argument, *read::find_parameter(row, argument.key)));
    arguments += arguments.empty() ? value : "," + std::string(argument.key) + "=" + value;
  }
  const bool is_bare = arguments == "true";  // skip, hang
  return std::string(row.word) + (is_bare ? "" : "(" + arguments + ")");
}

std::string to_line(const Scenario& scenario) {
  std::string out = scenario.seed == 0 ? "" : "seed=" + std::to_string(scenario.seed) + "; ";
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    out += (i == 0 ? "" : "; ") + to_line(scenario.faults[i]);
  return out;
}

std::string to_toml(const Scenario& scenario) {
  std::string out = "sabot = 1\n";
  if (!scenario.name.empty()) out += "name = " + toml_text(scenario.name) + "\n";
  if (scenario.seed != 0) out += "seed = " + std::to_string(scenario.seed) + "\n";
  if (scenario.ranks != 0) out += "ranks = " + std::to_string(scenario.ranks) + "\n";
  for (const Fault& fault : scenario.faults) out += "\n" + toml_fault(fault);
  if (scenario.expect) out += "\n" + toml_expectation(*scenario.expect);
  return out;
}

}  // namespace sabot::scenario
