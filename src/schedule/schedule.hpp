// Algorithms as pure functions: what one rank does in a collective, step by step, in elements.
//
// The one idea: a collective of shared-memory ranks is an exchange of numbered messages. Every rank
// has one outbound window of slots; `put` writes its next message there once for all its readers,
// `get` and `reduce` read message m of other ranks. A Program yields one rank's steps lazily, from
// a few words of state and without allocation, so that the host engine can run it on the fast path,
// and print.hpp and check.hpp can walk it. No I/O here; how bytes and waits happen is left to the
// engine.
//
// Laws that check.hpp proves and every algorithm keeps:
// * the plan and the message numbers depend only on what all ranks of the collective share: never
// on
//   the rank, never on whether its buffers are the same, so that ranks agree without talking;
// * steps run in order, one at a time, with Limits::slots messages in flight at most: no deadlock;
// * a message is read by exactly its readers, once each;
// * an element is reduced in one fixed order of ranks, everywhere the same: results are bitwise
//   equal on all ranks;
// * input may be the output (as NCCL defines in-place for the collective).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/datatype.hpp"

namespace sabot::schedule {

inline constexpr int kRanksMax = 64;
using RankMask = std::uint64_t;  // bit r = rank r

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
};
inline constexpr int kCollectiveCount = 8;

enum class Algorithm : std::uint8_t {
  kLocal,     // one rank: a copy
  kFlat,      // one phase: writers put chunks, every reader takes all it needs
  kTwoPhase,  // reduce-scatter, then all-gather (or gather to the root), pipelined over chunks
  kRing,      // neighbour to neighbour
  kTree,      // binary tree from the root
};
inline constexpr int kAlgorithmCount = 5;

std::string_view name_of(Collective collective);                    // "AllReduce"
std::string_view name_of(Algorithm algorithm);                      // "two-phase"
std::optional<Collective> parse_collective(std::string_view text);  // any case, "all_reduce" too
constexpr bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}
constexpr bool has_reduction(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

// What is asked. `count` has NCCL's meaning: elements of the vector (all-reduce, broadcast,
// reduce), or of the block of one rank (all others). Root is 0 where the collective has none.
struct Request {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int rank = 0;
  int world = 1;
  int root = 0;
  std::uint64_t count = 0;
};

// Elements of this request's buffers on its rank; 0 where the rank has no such buffer.
std::uint64_t input_elements(const Request& request);
std::uint64_t output_elements(const Request& request);

// What the machine offers; the same on all ranks.
struct Limits {
  std::uint32_t slots = 4;                // messages in flight per writer, at least 4
  std::uint32_t slot_bytes = 512 * 1024;  // payload of one message at most
};

struct Plan {
  Algorithm algorithm = Algorithm::kLocal;
  std::uint64_t chunk = 0;  // elements of one pipeline stage: of the vector, or of one rank's block
};

// The fastest plan for this request; a pure function, the same on every rank.
Plan choose(const Request& request, const Limits& limits);
// The most bytes that an all-reduce moves flat. Every rank reads all inputs then, so the more
// ranks, the earlier two phases win. Measured on 2 processors: 2 ranks 256 KiB, 4 ranks 32 KiB.
constexpr std::uint64_t flat_bytes_max(int world) {
  return world == 2 ? 256 * 1024 : 128 * 1024 / static_cast<std::uint64_t>(world);
}
inline constexpr std::uint64_t kFlatChunkBytes = 128 * 1024;
// Whether choose() gives an all-reduce of so many elements the flat algorithm in one chunk.
constexpr bool is_one_flat_chunk(std::uint64_t count, std::size_t element_bytes, int world,
                                 const Limits& limits) {
  const std::uint64_t bytes = count * element_bytes;
  return bytes <= flat_bytes_max(world) && bytes <= kFlatChunkBytes && bytes <= limits.slot_bytes;
}
// The plan of a given algorithm, or nothing where it cannot do this collective (ring: reductions
// that must round once, see rounds_once()).
std::optional<Plan> plan_for(Algorithm algorithm, const Request& request, const Limits& limits);
// Types narrower than 32 bits of floating point, avg and PreMulSum are accumulated over all sources
// at once and rounded once; algorithms that pass on partial sums are not offered for them.
bool rounds_once(DataType type, ReduceOp op);

enum class Buffer : std::uint8_t { kNone, kInput, kOutput };

// One step. A message, or the area of a buffer it comes from or goes to, is seen as parts: part i
// lies at element i × part of the message and at offset + i × stride of the buffer, length(i)
// elements.
struct Step {
  enum class Kind : std::uint8_t {
    kPut,     // all parts of `from` become my message `message`, for `readers`
    kGet,     // of message `message` of each s in `sources`, what lies at `message_offset` becomes
              // part s of `to` (part 0 where parts is 1)
    kReduce,  // combine length(0) elements of all `sources` (mine: at `from`; others: message
              // `message` at `message_offset`) to `to` and, if `readers`, to my message
              // `put_message`
    kCopy,    // length(0) elements of `from` become those of `to`
  };
  Kind kind = Kind::kCopy;
  Buffer from = Buffer::kNone;
  Buffer to = Buffer::kNone;
  bool finish = false;           // kReduce: this makes the final value (avg divides here)
  std::int8_t skip = -1;         // kPut: nobody reads this part
  std::int8_t first_source = 0;  // kReduce: the order begins here and goes up, wrapping around
  std::uint32_t parts = 1;
  std::uint64_t message = 0;
  std::uint64_t put_message = 0;
  RankMask readers = 0;
  RankMask sources = 0;
  std::uint64_t message_offset = 0;
  std::uint64_t from_offset = 0;
  std::uint64_t to_offset = 0;
  std::uint64_t stride = 0;
  std::uint64_t part = 0;
  std::uint64_t extent = 0;  // sum of the lengths of all parts

  std::uint64_t length(std::uint64_t index) const {
    const std::uint64_t begin = index * part;
    if (begin >= extent) return 0;
    return extent - begin < part ? extent - begin : part;
  }
};

struct Cursor;

// One rank's steps. Copyable, no allocation. Precondition: 0 ≤ rank, root < world ≤ kRanksMax, and
// the plan is one of choose() or plan_for() for the same request.
class Program {
 public:
  Program() = default;
  Program(const Request& request, const Plan& plan);

  // Fills the next step; false at the end.
  bool next(Step& step);

  // Messages are numbered 0 … message_count()-1, the same count on all ranks, in the order in which
  // a rank puts them and in which each reader takes them. A rank may leave numbers out.
  std::uint64_t message_count() const { return message_count_; }

 private:
  Request request_{};
  std::uint64_t chunk_ = 0;
  std::uint64_t stages_ = 0;
  std::uint64_t iteration_ = 0;
  std::uint64_t iterations_ = 0;
  std::uint64_t message_count_ = 0;
  std::uint32_t position_ = 0;  // within the iteration
  std::uint32_t positions_ = 0;
  bool (*emit_)(const Cursor&, Step&) = nullptr;
};

}  // namespace sabot::schedule
