// The values of all knobs, resolved once: command line over environment over file over default.
//
// A Snapshot is built from explicit sources and never changes, so that a decision can be repeated
// from it. A value that cannot be read is a Problem and the knob falls back; so is an unknown
// SABOT_ variable. Problems are kept, not printed: a process that has nothing to do with us must
// stay silent (B11). Immutable, hence thread-safe. Nothing is read or allocated before the first
// call of process().
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/knob.hpp"

namespace sabot::config {

struct Value {
  Source source = Source::kDefault;
  bool is_set = false;       // false: no source names it and the table has no default
  std::uint64_t number = 0;  // switch 0/1, integer, nanoseconds, position of a choice
  std::string text;          // as written
};

// What is wrong with one variable, in parts (for dumps) and as the sentence to print.
struct Problem {
  std::string name;
  std::string value;
  std::string expected;
  std::string example;
  std::string text;
};

struct Assignment {
  KnobId id;
  std::string text;
};

struct Sources {
  const char* const* environment = nullptr;  // NAME=VALUE, ends with null; null = empty
  std::span<const Assignment> command_line = {};
  std::span<const Assignment> file = {};
};

// One knob for config.json and for `sabot help knobs`.
struct Row {
  std::string_view name;
  std::string_view value;
  std::string_view source;
};

// Reads text as a value of this knob; the error says what was expected, with an example.
Result<Value> parse_value(const Knob& knob, std::string_view text);

class Snapshot {
 public:
  static Snapshot resolve(const Sources& sources);

  // The typed value: bool, std::uint64_t, std::string_view or the enumeration of a choice.
  template <KnobId kId>
  typename TypeOf<kId>::Value get() const {
    const Value& value = values_[static_cast<std::size_t>(kId)];
    if constexpr (TypeOf<kId>::kKind == Kind::kText || TypeOf<kId>::kKind == Kind::kPath)
      return value.text;
    else
      return static_cast<typename TypeOf<kId>::Value>(value.number);
  }
  const Value& value(KnobId id) const { return values_[static_cast<std::size_t>(id)]; }
  bool is_set(KnobId id) const { return value(id).is_set; }

  // RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID: the first that is set.
  std::optional<int> world_rank() const;
  // SABOT_ATTEMPT, TORCHELASTIC_RESTART_COUNT, SLURM_RESTART_COUNT: the first that is set, else 0.
  int attempt() const;
  // True where the launcher's variables show that the job runs on more than one host.
  bool spans_hosts() const;

  const std::vector<Problem>& problems() const { return problems_; }
  // Ours always, foreign ones only where set; in the order of the table.
  std::vector<Row> rows() const;

 private:
  std::optional<std::uint64_t> first_set(std::initializer_list<KnobId> ids) const;
  void assign(const Knob& knob, Source source, std::string_view text);
  void note_unknown(std::string_view name, std::string_view text);

  std::array<Value, kKnobCount> values_;
  std::vector<Problem> problems_;
};

// This process's snapshot, from its environment, read at the first call and then fixed.
const Snapshot& process();

// The environment as it is now, for building that of a child. Not for reading settings.
const char* const* environment();

}  // namespace sabot::config
