// An action as one flat value that the code which carries it out can read without looking anything
// up.
//
// Action is what a scenario says: a kind and its arguments, as printed and compared. Act is made
// from it once, when a fault is armed: every argument with its type, every default filled in.
// Trivially copyable, so that a firing can carry it by value. What an act means for a call belongs
// to the layers; what is random about it is computed here, from bits, so that it is the same in
// every run.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "abi/function_id.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

// The enumerators stand in the order of the words in read/grammar.cpp.
enum class Spread : std::uint8_t { kUniform, kNormal, kExponential };
enum class MismatchKind : std::uint8_t { kCount, kDatatype, kRedop, kRoot, kCall };
enum class CorruptKind : std::uint8_t { kBitFlip, kNan, kScale, kZero, kStale };
enum class CrashKind : std::uint8_t { kSignal, kExit, kAbort };
enum class LinkKind : std::uint8_t { kDrop, kDelay, kThrottle, kCut, kPartition };
enum class ExhaustKind : std::uint8_t { kAllocation, kRegistration };

inline constexpr std::uint64_t kAllPeers = ~0ULL;
inline constexpr std::uint64_t kLinkPeersMax = 64;  // peers that a link action can name one by one
inline constexpr std::uint64_t kCorruptElementsMax = 64;

struct Act {
  ActionKind kind = ActionKind::kError;
  Moment moment = Moment::kBefore;
  // kError, kAsyncError: the ncclResult_t to report. kExhaust: the one its kind of shortage has.
  int result = 0;
  // kDelay: how long. kHang: for how long, 0: no limit. kAsyncError: how long after the call.
  // kLink: how long "delay" holds a message.
  std::uint64_t duration_ns = 0;
  // kLink: until when after the call, 0: until it is released or the communicator ends.
  std::uint64_t limit_ns = 0;
  std::uint64_t jitter_ns = 0;  // kDelay; see drawn_duration_ns
  Spread spread = Spread::kUniform;
  bool on_host = false;  // kDelay, kHang: asked for by name; see acts_on_host
  MismatchKind mismatch = MismatchKind::kCount;
  CorruptKind corrupt = CorruptKind::kBitFlip;
  CrashKind crash = CrashKind::kSignal;
  LinkKind link = LinkKind::kDrop;
  ExhaustKind exhaust = ExhaustKind::kAllocation;
  // kMismatch: the count or root, or the ncclDataType_t or ncclRedOp_t by number.
  std::int64_t to_number = 0;
  std::optional<abi::FunctionId> to_function;  // kMismatch with kCall
  std::uint64_t elements = 1;                  // kCorrupt: how many, at most kCorruptElementsMax
  double factor = 1;                           // kCorrupt with kScale
  int crash_value = 0;                         // kCrash: the signal or the exit code
  std::uint64_t peers = kAllPeers;             // kLink: bit i: the peer of rank i
  std::uint64_t rate_bytes_per_s = 0;          // kLink with kThrottle
};
static_assert(std::is_trivially_copyable_v<Act>);

// Precondition: the action is one that the parser made.
Act act_of(const Action& action);

// Whether a delay or a hang holds the caller: asked for, or because the function puts nothing on a
// stream.
bool acts_on_host(const Act& act, abi::FunctionId function);

// Whether the action takes the call's place, so that a call can bear only one of this kind.
constexpr bool replaces_call(ActionKind kind) {
  return kind == ActionKind::kError || kind == ActionKind::kSkip || kind == ActionKind::kExhaust ||
         kind == ActionKind::kMismatch;
}

// The duration with its jitter. uniform: up to jitter more or less; normal: jitter is the standard
// deviation, at most six of them; exponential: jitter is the mean of what is added. Never below 0.
// bits: those of the firing, so that every run draws the same.
std::uint64_t drawn_duration_ns(const Act& act, std::uint64_t bits);

}  // namespace sabot::scenario
