// The shape of a call in one word, so that every message can carry it and every rank can compare
// it.
//
// It is exact, not a hash: what a peer called can be told from its word alone. All ranks of a
// collective must have equal words; a send and its receive must have equal words.
#pragma once

#include <cstdint>
#include <string>

#include "engine/host/endpoint.hpp"

namespace sabot::host {

// Set in a message's word when its payload lies in the stamp's cache line; not part of the shape.
inline constexpr std::uint64_t kInlineFlag = std::uint64_t{1} << 63;
inline constexpr int kCountBits = 46;
inline constexpr std::uint64_t kCountMax = (std::uint64_t{1} << kCountBits) - 1;

// From the low end: count 46, root 6, collective 4, type 4, op 3 bits.
inline constexpr int kRootShift = kCountBits;
inline constexpr int kCollectiveShift = 52;
inline constexpr int kTypeShift = 56;
inline constexpr int kOpShift = 60;
// Above the collectives: send and receive share one, since their words must be equal.
inline constexpr std::uint64_t kExchangeCode = 15;
// A chunk of a byte channel; count is how many bytes it holds.
inline constexpr std::uint64_t kBytesCode = 14;
static_assert(schedule::kCollectiveCount <= static_cast<int>(kBytesCode));

// Precondition: check() passed.
inline std::uint64_t signature_of(const Operation& operation) {
  const auto field = [](auto value, int shift) {
    return static_cast<std::uint64_t>(value) << shift;
  };
  std::uint64_t word = operation.count | field(operation.type, kTypeShift);
  if (operation.kind != Operation::Kind::kCollective)
    return word | field(kExchangeCode, kCollectiveShift);
  word |= field(operation.collective, kCollectiveShift);
  if (schedule::has_root(operation.collective)) word |= field(operation.root, kRootShift);
  if (schedule::has_reduction(operation.collective)) word |= field(operation.op, kOpShift);
  return word;
}

inline std::uint64_t signature_of_bytes(std::size_t bytes) {
  return bytes | kBytesCode << kCollectiveShift;
}
inline bool is_of_bytes(std::uint64_t signature) {
  return (signature >> kCollectiveShift & 15) == kBytesCode;
}

// "AllReduce count=8 float32 sum", "Broadcast count=6 float32 root=1", "count=4 int8" (send, recv),
// "raw bytes".
std::string describe_signature(std::uint64_t signature);

// What a caller may get wrong: kInvalidArgument with a text, for this rank of this many.
Status check(const Operation& operation, int rank, int world);

// The request this operation is, on this rank. Precondition: a collective.
schedule::Request request_of(const Operation& operation, int rank, int world);

}  // namespace sabot::host
