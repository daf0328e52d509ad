// How much memory a call lets the library touch, in elements, from its arguments alone.
//
// NCCL's count means the vector for some functions and one rank's block for others, and rooted
// functions use a buffer on one rank only. Whoever changes data or arguments of a call must stay
// within what the caller thereby promised; this is the one place that knows it. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "abi/call.hpp"
#include "base/result.hpp"

namespace sabot::layer {

// How many blocks of count elements a function reads from, or writes to, its buffer.
enum class Span : std::uint8_t { kNone, kBlock, kBlockPerRank, kBlockAtRoot, kBlockPerRankAtRoot };
struct Payload {
  Span input = Span::kNone;
  Span output = Span::kNone;
  bool is_any() const { return input != Span::kNone || output != Span::kNone; }
};
Payload payload_of(abi::FunctionId function);

// Elements of this rank's buffers. A buffer that begins where the other does (in place) is counted
// in both.
struct Extents {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};

// What decides them. Ranks 0 and rank -1 mean unknown, as in Call.
struct Shape {
  abi::FunctionId function{};
  std::uint64_t count = 0;
  int datatype = -1;
  int ranks = 0;
  int rank = -1;
  int root = -1;
};
Shape shape_of(const abi::Call& call);

// An error where the function moves no data, an argument is no value that NCCL accepts, the buffers
// would not fit into an address space, or what the answer depends on is unknown.
Result<Extents> extents_of(const Shape& shape);
inline Result<Extents> extents_of(const abi::Call& call) { return extents_of(shape_of(call)); }

}  // namespace sabot::layer
