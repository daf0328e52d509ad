// Communicators made from communicators: split, shrink, grow.
//
// Ranks that share a segment need no id to find each other: they put what they want into the
// parent's blobs, read what the others put, and derive the same name for the child's rendezvous.
// Only the segment is used, never the parent's operations, so this also works after an abort, after
// a revoke and with dead ranks left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "comm/comm.hpp"
#include "comm/life/seat.hpp"
#include "world/unique_id.hpp"

namespace sabot::comm::life {

// A step of the parent's life that all its ranks take in the same order.
struct Derivation {
  Comm& parent;
  std::uint64_t number = 0;              // of split, shrink and grow together
  std::function<Status()> interruption;  // ends all waiting
};

// No seat: this rank asked for no color.
Result<std::optional<Seat>> split(const Derivation& step, int color, int key);
// Tells the others that this rank cannot take part in a split. Best effort.
void report_split_failure(const Derivation& step, const Error& why);

// excluded: sorted, in range, without this rank.
Result<Seat> shrink(const Derivation& step, const std::vector<int>& excluded);

// An existing rank; exactly one of them brings the id.
Result<Seat> grow(const Derivation& step, int ranks, const std::optional<world::UniqueId>& id);

}  // namespace sabot::comm::life
