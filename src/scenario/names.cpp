// Groups of calls as sets of kinds, and traits from the API spec.
//
// A group is a row of kinds, so that a function added to the spec belongs to its groups by itself.
// Which functions return a result is read off the generated list of return types: nothing is typed
// in here.
#include "scenario/names.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "abi/api_list.hpp"
#include "abi/around.hpp"
#include "abi/names.hpp"
#include "base/text.hpp"

namespace sabot::scenario {
namespace {

using abi::Kind;

constexpr std::uint32_t kinds(std::initializer_list<Kind> list) {
  std::uint32_t bits = 0;
  for (const Kind kind : list) bits |= 1U << static_cast<unsigned>(kind);
  return bits;
}
constexpr std::uint32_t kEveryKind = (1U << static_cast<unsigned>(abi::kKindCount)) - 1;

constexpr std::array<CallGroupRow, 9> kGroups{{
    {CallGroup::kAny, "any", kEveryKind & ~kinds({Kind::query, Kind::param, Kind::device}),
     "every call except questions (versions, counts, parameters, device-side set-up)"},
    {CallGroup::kAnyCollective, "any collective", kinds({Kind::collective}),
     "AllReduce, Broadcast, AllGather …"},
    {CallGroup::kAnyP2p, "any p2p", kinds({Kind::p2p}), "Send and Recv"},
    {CallGroup::kAnyOneSided, "any one-sided", kinds({Kind::one_sided}),
     "PutSignal, Signal, WaitSignal"},
    {CallGroup::kInit, "init", kinds({Kind::init, Kind::derive}),
     "whatever creates a communicator: CommInitRank…, CommSplit, CommShrink, CommGrow"},
    {CallGroup::kTeardown, "teardown",
     kinds({Kind::finalize, Kind::destroy, Kind::abort, Kind::revoke}),
     "CommFinalize, CommDestroy, CommAbort, CommRevoke"},
    {CallGroup::kGroup, "group", kinds({Kind::group}), "GroupStart, GroupEnd, GroupSimulateEnd"},
    {CallGroup::kMemory, "memory", kinds({Kind::memory}),
     "allocation, registration, windows, suspend and resume"},
    {CallGroup::kRedop, "redop", kinds({Kind::redop}), "creation and destruction of reductions"},
}};

const CallGroupRow& row_of(CallGroup group) {
  return *std::find_if(kGroups.begin(), kGroups.end(),
                       [group](const CallGroupRow& row) { return row.group == group; });
}

constexpr std::array<bool, abi::kFunctionCount> kReturnsResult{{
#define SABOT_RETURNS(name, type) std::is_same_v<type, ncclResult_t>,
    SABOT_API(SABOT_RETURNS)
#undef SABOT_RETURNS
}};

// Which of a function's arguments are buffers, from the roles that the spec gives them.
struct Buffers {
  bool has_input = false;
  bool has_output = false;
  template <typename T>
  void role(abi::Role role, T&) {
    has_input = has_input || role == abi::Role::kSend || role == abi::Role::kInOut;
    has_output = has_output || role == abi::Role::kRecv || role == abi::Role::kInOut;
  }
};
#define SABOT_BUFFERS(name, ret)                            \
  Buffers buffers_of_##name(SABOT_PARAMS_##name) {          \
    SABOT_UNUSED_##name Buffers sabot_buffers;              \
    SABOT_ROLES_##name(sabot_buffers) return sabot_buffers; \
  }
SABOT_API(SABOT_BUFFERS)
#undef SABOT_BUFFERS

template <typename... Arguments>
Buffers asked(Buffers (*buffers_of)(Arguments...)) {
  return buffers_of(Arguments{}...);
}

const std::array<Buffers, abi::kFunctionCount>& all_buffers() {
  static const std::array<Buffers, abi::kFunctionCount> all{{
#define SABOT_BUFFERS(name, ret) asked(&buffers_of_##name),
      SABOT_API(SABOT_BUFFERS)
#undef SABOT_BUFFERS
  }};
  return all;
}

constexpr std::array<std::string_view, 6> kRedopWords{"sum", "prod", "max", "min", "avg", "user"};
static_assert(kRedopWords.size() == kRedopCreatedBit + 1);

}  // namespace

FunctionTraits traits_of(abi::FunctionId function) {
  const abi::FunctionInfo& info = abi::info(function);
  const bool creates_comm = info.kind == Kind::init || info.kind == Kind::derive;
  return {info.has_comm || creates_comm,
          info.has_count,
          info.has_datatype,
          info.has_redop,
          info.has_root,
          info.has_peer,
          info.has_stream,
          all_buffers()[static_cast<std::size_t>(function)].has_input,
          all_buffers()[static_cast<std::size_t>(function)].has_output,
          kReturnsResult[static_cast<std::size_t>(function)]};
}

std::span<const CallGroupRow> call_group_rows() { return kGroups; }

std::optional<CallTerm> find_call_term(std::string_view word) {
  for (const CallGroupRow& row : kGroups)
    if (row.word == word) return CallTerm{row.group, {}};
  const std::optional<abi::FunctionId> function = abi::find_function(word);
  if (!function) return std::nullopt;
  return CallTerm{CallGroup::kNone, *function};
}

std::string_view word_of(const CallTerm& term) {
  return term.group == CallGroup::kNone ? abi::info(term.function).name : row_of(term.group).word;
}

std::span<const std::string_view> call_words() {
  using Words = std::array<std::string_view, kGroups.size() + abi::kFunctionCount>;
  static const Words words = [] {
    Words all;
    std::size_t next = 0;
    for (const CallGroupRow& row : kGroups) all[next++] = row.word;
    for (const std::string_view name : abi::function_names()) all[next++] = name;
    return all;
  }();
  return words;
}

bool matches(const CallTerm& term, abi::FunctionId function) {
  // Bcast is Broadcast's older form, which PyTorch still calls: whoever names the operation means
  // both, and the older form can be named alone.
  const bool is_older_form =
      term.function == abi::FunctionId::kBroadcast && function == abi::FunctionId::kBcast;
  if (term.group == CallGroup::kNone) return term.function == function || is_older_form;
  const auto kind = static_cast<unsigned>(abi::info(function).kind);
  return (row_of(term.group).kinds >> kind & 1U) != 0;
}

bool matches(std::span<const CallTerm> terms, abi::FunctionId function) {
  return std::any_of(terms.begin(), terms.end(),
                     [function](const CallTerm& term) { return matches(term, function); });
}

std::string to_string(std::span<const CallTerm> terms) {
  std::vector<std::string_view> words;
  words.reserve(terms.size());
  for (const CallTerm& term : terms) words.push_back(word_of(term));
  return join(words, "|");
}

std::optional<unsigned> find_redop_bit(std::string_view name) {
  if (equals_ignoring_case(name, kRedopWords[kRedopCreatedBit])) return kRedopCreatedBit;
  const std::optional<int> redop = abi::find_redop(name);
  if (!redop) return std::nullopt;
  return redop_bit(*redop);
}

std::string_view redop_bit_name(unsigned bit) { return kRedopWords[bit]; }

std::span<const std::string_view> redop_words() { return kRedopWords; }

unsigned redop_bit(int redop) { return std::min(static_cast<unsigned>(redop), kRedopCreatedBit); }

}  // namespace sabot::scenario
