// The conditions of a trigger, one case per key.
#include <algorithm>
#include <array>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "scenario/names.hpp"
#include "scenario/read/builder.hpp"
#include "scenario/read/field.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::string_view kNamePrefix = "name:";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "c0", "c0/s1", "c0/*": what Sabot's labels look like. Everything else is a name.
bool is_label_pattern(std::string_view word) {
  return word.size() >= 2 && word[0] == 'c' && is_digit(word[1]) &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789/*?") ==
             std::string_view::npos;
}

std::vector<CallTerm> read_calls(const Field& field) {
  std::vector<CallTerm> terms;
  for (const Word& word : read_words(field).value_or(std::vector<Word>())) {
    const std::optional<CallTerm> term = find_call_term(word.text);
    if (!term) {
      field.diagnostics.add(word.place, field.path,
                            "no function or group of functions is called " + quoted(word.text) +
                                suggestion(word.text, call_words()));
      continue;
    }
    if (std::find(terms.begin(), terms.end(), *term) == terms.end()) terms.push_back(*term);
  }
  return terms;
}

std::vector<CommTerm> read_comms(const Field& field) {
  std::vector<CommTerm> terms;
  for (const Word& word : read_words(field).value_or(std::vector<Word>())) {
    CommTerm term;
    if (std::string_view(word.text).substr(0, kNamePrefix.size()) == kNamePrefix) {
      term.kind = CommTerm::Kind::kName;
      term.pattern = word.text.substr(kNamePrefix.size());
    } else if (word.text.find_first_of("<>=!") == 0) {
      term.kind = CommTerm::Kind::kSize;
      // A leading '=' only says that this is a size: "=4", "=2-8".
      const std::size_t skip = word.text[0] == '=' ? 1 : 0;
      Result<NumberSet> size =
          NumberSet::parse(std::string_view(word.text).substr(skip), NumberStyle::kPlain);
      if (!size.ok()) {
        field.diagnostics.add(word.place, field.path, size.error().message());
        continue;
      }
      term.size = *std::move(size);
      if (term.size.empty()) {
        field.diagnostics.add(word.place, field.path, "no number satisfies " + quoted(word.text));
        continue;
      }
    } else {
      term.kind = is_label_pattern(word.text) ? CommTerm::Kind::kLabel : CommTerm::Kind::kName;
      term.pattern = word.text;
    }
    if (term.kind != CommTerm::Kind::kSize && term.pattern.empty()) {
      field.diagnostics.add(word.place, field.path, "the name after 'name:' is missing");
      continue;
    }
    if (std::find(terms.begin(), terms.end(), term) == terms.end())
      terms.push_back(std::move(term));
  }
  return terms;
}

template <typename Number>
std::uint32_t read_bits(const Field& field, std::optional<Number> (*find)(std::string_view),
                        std::string_view what, std::span<const std::string_view> known) {
  std::uint32_t bits = 0;
  for (const Word& word : read_words(field).value_or(std::vector<Word>())) {
    const std::optional<Number> bit = find(word.text);
    if (bit) {
      bits |= 1U << static_cast<unsigned>(*bit);
    } else {
      field.diagnostics.add(word.place, field.path,
                            "no " + std::string(what) + " is called " + quoted(word.text) +
                                suggestion(word.text, known));
    }
  }
  return bits;
}

std::vector<std::string> read_hosts(const Field& field) {
  std::vector<std::string> patterns;
  for (Word& word : read_words(field).value_or(std::vector<Word>()))
    patterns.push_back(std::move(word.text));
  return patterns;
}

NumberSet read_range(const Field& field) {
  NumberSet range = read_numbers(field, NumberStyle::kPlain).value_or(NumberSet());
  if (range.contains(0)) {
    const std::optional<std::uint64_t> single = range.single();
    if (single || range.intervals().front().high == 0) {
      field.refuse("counting begins at 1; found 0");
      return range;
    }
    // "..7" and "<8" mean the first seven: nothing is counted as 0.
    range = range.intersect(NumberSet::of(Interval{1, kNumberMax}));
  }
  return range;
}

std::optional<double> read_probability(const Field& field) {
  const std::optional<double> probability = read_number(field);
  if (probability && !(*probability >= 0.0 && *probability <= 1.0)) {
    field.refuse("expected " + std::string(field.expected) + "; a percentage such as 10 % is 0.1");
    return std::nullopt;
  }
  return probability;
}

std::string read_switch(const Field& field) {
  const std::string name = read_text(field).value_or("");
  if (name.size() > kNameMax)
    field.refuse("longer than " + std::to_string(kNameMax) + " characters");
  return name;
}

void read_condition(Condition condition, const Field& field, Trigger& out) {
  const auto numbers = [&field](NumberStyle style) {
    return read_numbers(field, style).value_or(NumberSet());
  };
  switch (condition) {
    case Condition::kCall: out.call = read_calls(field); break;
    case Condition::kRank: out.rank = numbers(NumberStyle::kPlain); break;
    case Condition::kWorldRank: out.world_rank = numbers(NumberStyle::kPlain); break;
    case Condition::kHost: out.host = read_hosts(field); break;
    case Condition::kComm: out.comm = read_comms(field); break;
    case Condition::kBytes: out.bytes = numbers(NumberStyle::kBytes); break;
    case Condition::kCount: out.count = numbers(NumberStyle::kPlain); break;
    case Condition::kDatatype:
      out.datatypes = read_bits(field, abi::find_datatype, "data type", abi::datatype_names());
      break;
    case Condition::kRedop:
      out.redops = read_bits(field, find_redop_bit, "reduction", redop_words());
      break;
    case Condition::kRoot: out.root = numbers(NumberStyle::kPlain); break;
    case Condition::kPeer: out.peer = numbers(NumberStyle::kPlain); break;
    case Condition::kAttempt: out.attempt = numbers(NumberStyle::kPlain); break;
    case Condition::kCaptured: out.captured = read_boolean(field); break;
    case Condition::kAfter: out.after_ns = read_duration_ns(field); break;
    case Condition::kAfterFirstCall: out.after_first_call_ns = read_duration_ns(field); break;
    case Condition::kSwitch: out.switch_name = read_switch(field); break;
    case Condition::kNth: out.nth = read_whole(field, 1); break;
    case Condition::kRange: out.range = read_range(field); break;
    case Condition::kEvery: out.every = read_whole(field, 1); break;
    case Condition::kProbability: out.probability = read_probability(field); break;
  }
}

}  // namespace

Trigger build_trigger(const Value& when, const Prefixes& prefixes, Diagnostics& diagnostics) {
  std::array<std::string_view, kConditionCount> keys;
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = trigger_rows()[i].key;
  refuse_unknown_keys(when, prefixes.when, keys, diagnostics);
  Trigger trigger;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Member* member = when.find(keys[i]);
    if (member == nullptr) continue;
    const Field field{member->value, std::string(prefixes.when) + member->key,
                      trigger_rows()[i].expected, diagnostics};
    read_condition(static_cast<Condition>(i), field, trigger);
  }
  if (when.find("call") == nullptr) {
    diagnostics.add(when.place, std::string(prefixes.when) + "call",
                    R"(missing; write which calls, as in call = "AllReduce", or call = "any")");
  }
  return trigger;
}

}  // namespace sabot::scenario::read
