// A scenario: which faults, when they fire, what they do, and what the job is expected to do about
// them.
//
// Plain data, made by parse.hpp and read by the decider, the fault layer, the launcher and the
// drill. A scenario that exists is consistent: whatever could never fire or contradicts itself was
// refused by the parser. An absent condition is an empty set, list or optional; all conditions of a
// trigger must hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "abi/function_id.hpp"
#include "base/result.hpp"
#include "scenario/number_set.hpp"

namespace sabot::scenario {

inline constexpr std::size_t kFaultsMax = 64;    // a set of faults is one machine word
inline constexpr std::size_t kSwitchesMax = 64;  // so is a set of switches
inline constexpr std::size_t kNameMax = 64;      // a fault's name is part of a file name

// The conditions of a trigger, in the order in which they are documented, printed and explained.
// The keys of `when` are the rows of kTriggerRows (read/grammar.hpp), one per enumerator.
enum class Condition : std::uint8_t {
  kCall,
  kRank,
  kWorldRank,
  kHost,
  kComm,
  kBytes,
  kCount,
  kDatatype,
  kRedop,
  kRoot,
  kPeer,
  kAttempt,
  kCaptured,
  kAfter,
  kAfterFirstCall,
  kSwitch,
  kNth,
  kRange,
  kEvery,
  kProbability,
};
inline constexpr std::size_t kConditionCount = 20;

constexpr std::uint32_t bit_of(Condition condition) {
  return 1U << static_cast<unsigned>(condition);
}
constexpr std::size_t index_of(Condition condition) { return static_cast<std::size_t>(condition); }

// Kinds of calls that a trigger can name at once. "any" leaves out the functions that only ask for
// something (versions, counts, parameters); those match only when they are named.
enum class CallGroup : std::uint8_t {
  kNone,
  kAny,
  kAnyCollective,
  kAnyP2p,
  kAnyOneSided,
  kInit,
  kTeardown,
  kGroup,
  kMemory,
  kRedop,
};

// One word of `call`: a group, or the function if group is kNone.
struct CallTerm {
  CallGroup group = CallGroup::kNone;
  abi::FunctionId function{};
  bool operator==(const CallTerm&) const = default;
};

// One word of `comm`: a label pattern ("c0", "c0/*"), a name pattern, or a size.
struct CommTerm {
  enum class Kind : std::uint8_t { kLabel, kName, kSize };
  Kind kind = Kind::kLabel;
  std::string pattern;
  NumberSet size;
  bool operator==(const CommTerm&) const = default;
};

struct Trigger {
  std::vector<CallTerm> call;  // never empty
  NumberSet rank;
  NumberSet world_rank;
  std::vector<std::string> host;
  std::vector<CommTerm> comm;
  NumberSet bytes;
  NumberSet count;
  std::uint32_t datatypes = 0;  // bit i: the ncclDataType_t of value i; 0: any
  std::uint32_t redops =
      0;  // bit i: the ncclRedOp_t of value i, kRedopCreatedBit: any of 5 and above
  NumberSet root;
  NumberSet peer;
  NumberSet attempt;
  std::optional<bool> captured;
  std::optional<std::uint64_t> after_ns;
  std::optional<std::uint64_t> after_first_call_ns;
  std::string switch_name;
  std::optional<std::uint64_t> nth;
  NumberSet range;
  std::optional<std::uint64_t> every;
  std::optional<double> probability;
  bool operator==(const Trigger&) const = default;
};
inline constexpr unsigned kRedopCreatedBit = 5;

// The conditions that this trigger has, as bits.
std::uint32_t conditions_of(const Trigger& trigger);

enum class ActionKind : std::uint8_t {
  kError,
  kAsyncError,
  kDelay,
  kHang,
  kSkip,
  kMismatch,
  kCorrupt,
  kCrash,
  kLink,
  kExhaust,
};

enum class Moment : std::uint8_t { kBefore, kAfter };  // the real call

// One argument of an action. What it means is its row in read/grammar.hpp; the first argument of
// every action is named like the action itself. Durations are in ns, sizes in bytes, result codes
// and signals by number, words and true as text.
struct Argument {
  std::string_view key;  // points into the grammar's table
  std::variant<std::uint64_t, double, std::string, NumberSet> value;
  bool operator==(const Argument&) const = default;
};

struct Action {
  ActionKind kind = ActionKind::kError;
  std::vector<Argument> arguments;  // in the order of the grammar; defaults are left out

  const Argument* find(std::string_view key) const;
  // For kError: the ncclResult_t to return, and where.
  int result() const;
  Moment moment() const;
  bool operator==(const Action&) const = default;
};

struct Fault {
  std::string name;
  Trigger when;
  Action action;
  std::uint64_t budget = 0;  // most firings in the run, restarts included; 0: no limit
  bool is_armed = true;      // from the start; else from when somebody arms it
  bool operator==(const Fault&) const = default;
};

// How a job can end under its faults.
enum class Outcome : std::uint8_t {
  kCompletes,
  kRecovers,
  kFailsCleanly,
  kHangs,
  kDiesDirty,
  kWrongResult,
};
inline constexpr std::size_t kOutcomeCount = 6;
constexpr std::uint32_t bit_of(Outcome outcome) { return 1U << static_cast<unsigned>(outcome); }

struct ExpectedFirings {
  std::string fault;
  std::uint64_t count = 0;
  bool operator==(const ExpectedFirings&) const = default;
};

// What is absent is not expected.
struct Expectation {
  std::uint32_t outcomes = 0;  // any of them, as bits; 0: whatever comes
  std::optional<std::uint64_t> detected_within_ns;
  std::optional<std::uint64_t> finished_within_ns;
  std::vector<ExpectedFirings> fired;
  std::optional<bool> check;  // whether the user's check is to agree with the baseline
  NumberSet steps_lost;
  NumberSet attempts;  // how many times the job is started
  bool operator==(const Expectation&) const = default;
};

struct Scenario {
  std::string name;
  std::uint64_t seed = 0;
  std::uint64_t ranks = 0;  // how many ranks the job has, if the scenario says so; 0: unknown
  std::vector<Fault> faults;
  std::optional<Expectation> expect;
  // What is allowed but probably not meant, one text each; not part of the meaning.
  std::vector<std::string> warnings;
};

// Equal in meaning: all but the warnings.
bool operator==(const Scenario& a, const Scenario& b);

// Puts the faults of a line (--fault, SABOT_FAULT) behind those of a file; a seed that is not 0
// replaces that of the file. Refuses a name that is taken and more than kFaultsMax faults; origin
// names the line.
Status append_faults(Scenario& into, Scenario from, std::string_view origin);

// One bit per fault, in file order: all of them, and those that are armed from the start.
std::uint64_t all_faults(const Scenario& scenario);
std::uint64_t armed_at_start(const Scenario& scenario);

// The distinct switch names in order of first use: the position is the bit that decides them.
std::vector<std::string> switches_of(const Scenario& scenario);

}  // namespace sabot::scenario
