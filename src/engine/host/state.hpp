// What an endpoint remembers between operations. Private to this module.
//
// The one idea: a message's stamp is its number since the communicator began, the same numbering on
// every rank: all ranks run the same collectives, and the messages of a collective are numbered
// alike on all of them. So one counter, `base`, finds everybody's slots. Collectives run in the
// order of their numbers; whoever drives collective `turn` owns the window's part of the state,
// handed on through that word.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/host/endpoint.hpp"
#include "link/segment.hpp"
#include "schedule/schedule.hpp"

namespace sabot::host {

inline constexpr std::size_t kWindowSlotsMax = 64;

// One direction of send/recv with one peer.
struct Direction {
  std::atomic<std::uint64_t> started{0};  // operations that were given a place
  std::atomic<std::uint64_t> turn{0};     // the operation that may run
  std::uint64_t chunks = 0;               // sent or received so far; owned by the operation at turn
  std::uint64_t credit = 0;               // of these, known to have been taken (send)
};

struct Endpoint::State {
  // Collectives.
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> turn{1};
  std::uint64_t base = 0;      // stamps up to this belong to finished collectives
  std::uint64_t everyone = 0;  // stamps up to this have been consumed by everybody
  struct Put {
    std::uint64_t stamp = 0;
    schedule::RankMask readers = 0;
  };
  std::array<Put, kWindowSlotsMax> puts{};            // what lies in each slot of my window
  std::array<std::uint64_t, link::kRanksMax> seen{};  // peers' consumption as last read
  std::array<link::Slots, link::kRanksMax> windows{};
  schedule::Limits limits{};

  std::array<Direction, link::kRanksMax> sends{};
  std::array<Direction, link::kRanksMax> receives{};

  Watch finalize_watch;
  std::atomic<std::uint64_t> asked_at_ns{0};  // when async_error() last asked for dead peers
};

std::uint64_t now_ns();

}  // namespace sabot::host
