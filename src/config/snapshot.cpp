// Resolution of the knobs; the one place in the tree that looks at the environment.
#include "config/snapshot.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text.hpp"
#include "base/units.hpp"

namespace sabot::config {
namespace {

constexpr std::string_view kPrefix = "SABOT_";
// A variable of a megabyte is no setting; longer text is refused rather than copied into messages.
constexpr std::size_t kTextBytesMax = 64 * 1024;
constexpr std::size_t kShownBytesMax = 80;

std::string expected_of(const Knob& knob) {
  switch (knob.kind) {
    case Kind::kSwitch: return "one of 0, 1, off, on, false, true, no, yes";
    case Kind::kInteger: return "a whole number, 0 or more";
    case Kind::kDuration: return "a duration with its unit";
    case Kind::kChoice: {
      std::string words = "one of ";
      for (const std::string_view word : split(knob.unit, '|')) {
        if (words.size() > 7) words.append(", ");
        words.append(word);
      }
      return words;
    }
    case Kind::kText:
    case Kind::kPath: return "at most 64KiB of text";
  }
  return "";
}

std::optional<std::uint64_t> parse_switch(std::string_view text) {
  for (const std::string_view word : {"1", "on", "true", "yes"})
    if (equals_ignoring_case(text, word)) return 1;
  for (const std::string_view word : {"0", "off", "false", "no"})
    if (equals_ignoring_case(text, word)) return 0;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_choice(const Knob& knob, std::string_view text) {
  const std::vector<std::string_view> words = split(knob.unit, '|');
  for (std::size_t i = 0; i < words.size(); ++i)
    if (equals_ignoring_case(words[i], text)) return i;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_number(const Knob& knob, std::string_view text) {
  switch (knob.kind) {
    case Kind::kSwitch: return parse_switch(text);
    case Kind::kInteger: return parse_integer(text);
    case Kind::kChoice: return parse_choice(knob, text);
    case Kind::kDuration: {
      const Result<std::uint64_t> ns = parse_duration_ns(text);
      return ns.ok() ? std::optional(*ns) : std::nullopt;
    }
    case Kind::kText:
    case Kind::kPath:
      if (!knob.foreign && text.size() > kTextBytesMax) return std::nullopt;
      return 0;
  }
  return std::nullopt;
}

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytesMax) return std::string(text);
  return std::string(text.substr(0, kShownBytesMax)) + "…";
}

const Knob* find_knob(std::string_view name) {
  const auto* const found =
      std::find_if(kKnobs.begin(), kKnobs.end(), [&](const Knob& k) { return k.name == name; });
  return found == kKnobs.end() ? nullptr : &*found;
}

// Numbers of the outside world are small; a larger one is clipped, not wrapped.
int to_int(std::uint64_t number) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  return static_cast<int>(std::min(number, kMax));
}

}  // namespace

std::string_view name_of(Source source) {
  switch (source) {
    case Source::kDefault: return "default";
    case Source::kFile: return "file";
    case Source::kEnvironment: return "environment";
    case Source::kCommandLine: return "command line";
  }
  return "";
}

Result<Value> parse_value(const Knob& knob, std::string_view text) {
  Value value;
  value.text = std::string(text);
  // An empty variable counts as not set, as shells make it hard to unset one for a single command.
  if (text.empty()) return value;
  const std::optional<std::uint64_t> number = parse_number(knob, text);
  if (!number)
    return Error(Code::kInvalidArgument, "'" + shown(text) + "' is not " + expected_of(knob) +
                                             "; write for instance " + std::string(knob.example));
  value.number = *number;
  value.is_set = true;
  return value;
}

void Snapshot::assign(const Knob& knob, Source source, std::string_view text) {
  Result<Value> parsed = parse_value(knob, text);
  if (parsed.ok()) {
    if (!parsed->is_set) return;
    parsed->source = source;
    values_[static_cast<std::size_t>(knob.id)] = std::move(parsed).value();
    return;
  }
  Problem problem{std::string(knob.name), shown(text), expected_of(knob), std::string(knob.example),
                  ""};
  problem.text = problem.name + "='" + problem.value + "' is not " + problem.expected;
  if (!problem.example.empty())
    problem.text += "; write for instance " + problem.name + "=" + problem.example;
  const Value& kept = value(knob.id);
  problem.text += kept.is_set ? "; using " + kept.text : "; it is ignored";
  problems_.push_back(std::move(problem));
}

void Snapshot::note_unknown(std::string_view name, std::string_view text) {
  std::vector<std::string_view> known;
  for (const Knob& knob : kKnobs)
    if (!knob.foreign) known.push_back(knob.name);
  Problem problem{shown(name), shown(text), "a variable of Sabot", "", ""};
  problem.text = problem.name + " is not a variable of Sabot";
  // The common prefix would make any two names look alike: only what follows it is compared.
  std::vector<std::string_view> tails;
  for (const std::string_view candidate : known) tails.push_back(candidate.substr(kPrefix.size()));
  if (const auto close = nearest(name.substr(kPrefix.size()), tails)) {
    problem.expected = std::string(kPrefix) + std::string(*close);
    problem.text += "; did you mean " + problem.expected + "?";
  } else {
    problem.text += "; `sabot help knobs` lists them";
  }
  problems_.push_back(std::move(problem));
}

Snapshot Snapshot::resolve(const Sources& sources) {
  Snapshot snapshot;
  for (const Knob& knob : kKnobs)
    if (!knob.fallback.empty()) snapshot.assign(knob, Source::kDefault, knob.fallback);
  for (const Assignment& entry : sources.file)
    snapshot.assign(knob(entry.id), Source::kFile, entry.text);
  for (const char* const* entry = sources.environment; entry != nullptr && *entry != nullptr;
       ++entry) {
    const std::string_view pair = *entry;
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = pair.substr(0, equals);
    if (const Knob* known = find_knob(name))
      snapshot.assign(*known, Source::kEnvironment, pair.substr(equals + 1));
    else if (name.starts_with(kPrefix))
      snapshot.note_unknown(name, pair.substr(equals + 1));
  }
  for (const Assignment& entry : sources.command_line)
    snapshot.assign(knob(entry.id), Source::kCommandLine, entry.text);
  return snapshot;
}

std::optional<std::uint64_t> Snapshot::first_set(std::initializer_list<KnobId> ids) const {
  for (const KnobId id : ids)
    if (is_set(id)) return value(id).number;
  return std::nullopt;
}

std::optional<int> Snapshot::world_rank() const {
  const auto rank =
      first_set({KnobId::kRank, KnobId::kOmpiRank, KnobId::kPmiRank, KnobId::kSlurmProcid});
  if (!rank) return std::nullopt;
  return to_int(*rank);
}

int Snapshot::attempt() const {
  return to_int(
      first_set({KnobId::kAttempt, KnobId::kRestartCount, KnobId::kSlurmRestartCount}).value_or(0));
}

bool Snapshot::spans_hosts() const {
  const auto more = [this](KnobId all, KnobId here) {
    return is_set(all) && is_set(here) && value(all).number > value(here).number;
  };
  return more(KnobId::kWorldSize, KnobId::kLocalWorldSize) ||
         more(KnobId::kOmpiSize, KnobId::kOmpiLocalSize) ||
         (is_set(KnobId::kSlurmNodes) && value(KnobId::kSlurmNodes).number > 1);
}

std::vector<Row> Snapshot::rows() const {
  std::vector<Row> rows;
  for (const Knob& knob : kKnobs) {
    const Value& held = value(knob.id);
    if (knob.foreign && !held.is_set) continue;
    rows.push_back({knob.name, held.text, name_of(held.source)});
  }
  return rows;
}

const char* const* environment() { return ::environ; }

const Snapshot& process() {
  // Never destroyed: calls may still arrive while the process's destructors run.
  static const Snapshot& snapshot =
      *new Snapshot(Snapshot::resolve({.environment = environment()}));
  return snapshot;
}

}  // namespace sabot::config
