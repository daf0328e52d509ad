// What an endpoint remembers between operations. Private to this module.
//
// The one idea: a message's stamp is its number since the communicator began, the same numbering on
// every rank: all ranks run the same collectives, and the messages of a collective are numbered
// alike on all of them. So one counter, `base`, finds everybody's slots. Collectives run in the
// order of their numbers; whoever drives collective `turn` owns window and base, handed on through
// that word.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/host/endpoint.hpp"
#include "engine/host/window.hpp"
#include "link/segment.hpp"
#include "schedule/schedule.hpp"

namespace sabot::host {

// One direction of send/recv with one peer.
struct Direction {
  // What its channel carries; decided by the first use.
  enum class Use : std::uint8_t { kNone, kMessages, kBytes };
  std::atomic<Use> use{Use::kNone};

  bool claim(Use wanted) {
    Use seen = use.load();
    if (seen == Use::kNone && use.compare_exchange_strong(seen, wanted)) return true;
    return seen == wanted;
  }

  std::atomic<std::uint64_t> started{0};  // operations that were given a place
  std::atomic<std::uint64_t> turn{0};     // the operation that may run
  std::uint64_t chunks = 0;               // sent or received so far; owned by the operation at turn
  std::uint64_t credit = 0;               // of these, known to have been taken (send)
  std::size_t offset = 0;                 // of the bytes in the current chunk, taken (bytes, recv)
  std::uint64_t due_ns = 0;               // of bytes that a link fault delays
  Watch watch{};                          // of polls for bytes or for room that found nothing
};

struct Endpoint::State {
  State(link::Segment& segment, int rank) : window(segment, rank) {
    const link::Geometry& geometry = segment.geometry();
    limits = {geometry.slots, geometry.slot_bytes};
  }

  // Collectives.
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> turn{1};
  std::uint64_t base = 0;  // stamps up to this belong to finished collectives
  Window window;
  schedule::Limits limits{};

  std::array<Direction, link::kRanksMax> sends{};
  std::array<Direction, link::kRanksMax> receives{};

  // Whether ranks share processors, once all ranks have told theirs.
  enum class Crowd : int { kUnknown, kNo, kYes };
  std::atomic<Crowd> crowd{Crowd::kUnknown};

  Watch finalize_watch;
  std::atomic<std::uint64_t> asked_at_ns{0};  // when async_error() last asked for dead peers

  bool is_turn_of(std::uint64_t number) const {
    // pairs with: end_collective
    return turn.load(std::memory_order_acquire) == number;
  }
  void end_collective(std::uint64_t number, std::uint64_t messages, bool heard_everybody) {
    const std::uint64_t next = base + (messages == 0 ? 1 : messages);
    window.complete(base, next, heard_everybody);
    base = next;
    // pairs with: is_turn_of
    turn.store(number + 1, std::memory_order_release);
  }
};

// Notes in the shared history what this rank calls as collective `number`.
inline void remember(link::Segment& segment, int rank, std::uint64_t number,
                     std::uint64_t signature) {
  link::HistoryEntry& entry = segment.history(rank, number);
  entry.number.store(0, std::memory_order_relaxed);
  // Both pairs with: recall (relaxed: the first store only invalidates)
  entry.signature.store(signature, std::memory_order_release);
  entry.number.store(number, std::memory_order_release);
}

std::uint64_t now_ns();

}  // namespace sabot::host
