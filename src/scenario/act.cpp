// From named arguments to fields, one case per action.
//
// Words become enumerators by their position in the grammar's list; the order is checked by the
// tests, which name each word.
#include "scenario/act.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <string>
#include <utility>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/names.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario {
namespace {

constexpr int kUnhandledCudaError = 1;
constexpr int kSystemError = 2;

struct SignalName {
  std::string_view name;
  int number;
};
constexpr std::array<SignalName, 7> kSignals{{{"SIGKILL", SIGKILL},
                                              {"SIGTERM", SIGTERM},
                                              {"SIGINT", SIGINT},
                                              {"SIGSEGV", SIGSEGV},
                                              {"SIGBUS", SIGBUS},
                                              {"SIGFPE", SIGFPE},
                                              {"SIGSTOP", SIGSTOP}}};

// Typed access to the arguments; what is absent has the value given for it.
class Arguments {
 public:
  explicit Arguments(const Action& action) : action_(action) {}

  std::uint64_t number(std::string_view key, std::uint64_t absent) const {
    const auto* value = get<std::uint64_t>(key);
    return value == nullptr ? absent : *value;
  }
  double real(std::string_view key, double absent) const {
    const auto* value = get<double>(key);
    return value == nullptr ? absent : *value;
  }
  std::string_view word(std::string_view key) const {
    const auto* value = get<std::string>(key);
    return value == nullptr ? std::string_view() : std::string_view(*value);
  }
  const NumberSet* numbers(std::string_view key) const { return get<NumberSet>(key); }

  // The enumerator of a word: its position among the words of its parameter.
  template <typename Enum>
  Enum choice(std::string_view key) const {
    const read::ParameterRow& row = *read::find_parameter(read::row_of(action_.kind), key);
    const auto at = std::find(row.words.begin(), row.words.end(), word(key));
    return at == row.words.end() ? Enum{} : static_cast<Enum>(at - row.words.begin());
  }

 private:
  template <typename T>
  const T* get(std::string_view key) const {
    const Argument* argument = action_.find(key);
    return argument == nullptr ? nullptr : std::get_if<T>(&argument->value);
  }
  const Action& action_;
};

void fill_mismatch(const Arguments& arguments, Act& act) {
  act.mismatch = arguments.choice<MismatchKind>("mismatch");
  const std::string_view name = arguments.word("to");
  switch (act.mismatch) {
    case MismatchKind::kCount:
    case MismatchKind::kRoot:
      act.to_number = static_cast<std::int64_t>(arguments.number("to", 0));
      break;
    case MismatchKind::kDatatype: act.to_number = abi::find_datatype(name).value_or(0); break;
    case MismatchKind::kRedop: act.to_number = abi::find_redop(name).value_or(0); break;
    case MismatchKind::kCall: act.to_function = abi::find_function(name); break;
  }
}

void fill_crash(const Arguments& arguments, Act& act) {
  const std::string_view word = arguments.word("crash");
  if (word.empty()) {
    act.crash = CrashKind::kExit;
    act.crash_value = static_cast<int>(arguments.number("crash", 0));
    return;
  }
  act.crash = word == "abort" ? CrashKind::kAbort : CrashKind::kSignal;
  act.crash_value = SIGABRT;
  for (const SignalName& signal : kSignals)
    if (signal.name == word) act.crash_value = signal.number;
}

std::uint64_t mask_of(const NumberSet& peers) {
  std::uint64_t mask = 0;
  for (std::uint64_t peer = 0; peer < kLinkPeersMax; ++peer)
    if (peers.contains(peer)) mask |= 1ULL << peer;
  return mask;
}

void fill_link(const Arguments& arguments, Act& act) {
  act.link = arguments.choice<LinkKind>("link");
  act.duration_ns = arguments.number("by", 0);
  act.limit_ns = arguments.number("for", 0);
  act.rate_bytes_per_s = arguments.number("rate", 0);
  const NumberSet* peers = arguments.numbers("peer");
  act.peers = peers == nullptr ? kAllPeers : mask_of(*peers);
}

}  // namespace

Act act_of(const Action& action) {
  const Arguments arguments(action);
  Act act;
  act.kind = action.kind;
  act.moment = action.moment();
  switch (action.kind) {
    case ActionKind::kError: act.result = action.result(); break;
    case ActionKind::kAsyncError:
      act.result = action.result();
      act.duration_ns = arguments.number("after", 0);
      break;
    case ActionKind::kDelay:
      act.duration_ns = arguments.number("delay", 0);
      act.jitter_ns = arguments.number("jitter", 0);
      act.spread = arguments.choice<Spread>("distribution");
      act.on_host = arguments.word("on") == "host";
      break;
    case ActionKind::kHang:
      act.duration_ns = arguments.number("hang", 0);
      act.on_host = arguments.word("on") == "host";
      break;
    case ActionKind::kSkip: break;
    case ActionKind::kMismatch: fill_mismatch(arguments, act); break;
    case ActionKind::kCorrupt:
      act.corrupt = arguments.choice<CorruptKind>("corrupt");
      act.elements = arguments.number("elements", 1);
      act.factor = arguments.real("by", 1);
      break;
    case ActionKind::kCrash: fill_crash(arguments, act); break;
    case ActionKind::kLink: fill_link(arguments, act); break;
    case ActionKind::kExhaust:
      act.exhaust = arguments.choice<ExhaustKind>("exhaust");
      act.result = act.exhaust == ExhaustKind::kAllocation ? kUnhandledCudaError : kSystemError;
      break;
  }
  return act;
}

bool acts_on_host(const Act& act, abi::FunctionId function) {
  return act.on_host || !traits_of(function).has_stream;
}

std::uint64_t drawn_duration_ns(const Act& act, std::uint64_t bits) {
  if (act.jitter_ns == 0) return act.duration_ns;
  constexpr int kSummands = 12;  // a sum of 12 has variance 1 and ends at six deviations
  Random random(bits);
  double factor = 0;
  switch (act.spread) {
    case Spread::kUniform: factor = 2 * unit_interval(random.next()) - 1; break;
    case Spread::kNormal:
      for (int i = 0; i < kSummands; ++i) factor += unit_interval(random.next()) - 0.5;
      break;
    case Spread::kExponential: factor = -std::log1p(-unit_interval(random.next())); break;
  }
  const double drawn =
      static_cast<double>(act.duration_ns) + factor * static_cast<double>(act.jitter_ns);
  return drawn <= 0 ? 0 : static_cast<std::uint64_t>(drawn);
}

}  // namespace sabot::scenario
