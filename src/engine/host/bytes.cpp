// Byte channels: the data path of put_bytes and take_bytes, and what ends a vain wait for them.
//
// Unlike an operation, a stream of bytes has no end, so a peer that leaves is not the failure of
// the communicator: it concerns those alone who still want something from it. That its process
// died concerns all, as everywhere.
#include <algorithm>
#include <cstring>

#include "engine/host/channel.hpp"
#include "engine/host/endpoint.hpp"
#include "engine/host/signature.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {
namespace {

using link::Presence;

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

Status check_peer(int peer, int world) {
  if (peer >= 0 && peer < world) return {};
  return Error(Code::kInvalidArgument, "peer is " + std::to_string(peer) +
                                           ", but ranks go from 0 to " + std::to_string(world - 1));
}

bool is_gone(Presence presence) {
  return presence == Presence::kLeft || presence == Presence::kAborted;
}

Error gone(int peer, Presence presence) {
  return Error(Code::kRemote, rank_text(peer) +
                                  (presence == Presence::kAborted ? " aborted" : " destroyed") +
                                  " its communicator")
      .about_peer(peer);
}

}  // namespace

Result<std::size_t> Endpoint::put_bytes(int peer, std::span<const std::byte> bytes) {
  SABOT_TRY(check_peer(peer, world_));
  SABOT_TRY(usable());
  Direction& direction = state_->sends[static_cast<std::size_t>(peer)];
  if (!direction.claim(Direction::Use::kBytes))
    return Error(Code::kInvalidUsage, "the channel to " + rank_text(peer) +
                                          " carries messages of ncclSend; put bytes on another "
                                          "communicator");
  const Presence presence = segment_->presence(peer).load();
  if (is_gone(presence)) return gone(peer, presence);
  Outlet outlet(*segment_, rank_, peer, direction);
  std::size_t moved = 0;
  while (moved < bytes.size() && outlet.has_room()) {
    const std::size_t chunk = std::min(bytes.size() - moved, outlet.chunk_bytes_max());
    const Gate::Passage passage =
        SABOT_TRY(pass(schedule::RankMask{1} << peer, chunk, direction.due_ns));
    if (passage == Gate::Passage::kHeld) break;
    if (passage == Gate::Passage::kLost)
      outlet.lose();
    else
      outlet.put(bytes.data() + moved, chunk, signature_of_bytes(chunk));
    moved += chunk;
  }
  if (moved == 0 && !bytes.empty()) SABOT_TRY(look(direction.watch, 0, 0));
  return moved;
}

Result<std::size_t> Endpoint::take_bytes(int peer, std::span<std::byte> bytes) {
  SABOT_TRY(check_peer(peer, world_));
  SABOT_TRY(usable());
  Direction& direction = state_->receives[static_cast<std::size_t>(peer)];
  if (!direction.claim(Direction::Use::kBytes))
    return Error(Code::kInvalidUsage, "the channel from " + rank_text(peer) +
                                          " carries messages of ncclRecv; take bytes on another "
                                          "communicator");
  if (SABOT_TRY(is_closed(schedule::RankMask{1} << peer))) return std::size_t{0};
  Inlet inlet(*segment_, peer, rank_, direction);
  std::size_t moved = 0;
  while (moved < bytes.size() && inlet.arrived()) {
    const std::uint64_t signature = inlet.signature();
    if (!is_of_bytes(signature)) return mismatch(peer, 0, signature_of_bytes(0), signature);
    const std::size_t length = signature & kCountMax;
    const std::size_t piece = std::min(length - direction.offset, bytes.size() - moved);
    std::memcpy(bytes.data() + moved, inlet.payload() + direction.offset, piece);
    direction.offset += piece;
    moved += piece;
    if (direction.offset < length) continue;
    direction.offset = 0;
    inlet.release();
  }
  return moved == 0 && !bytes.empty() ? nothing_to_take(peer) : Result<std::size_t>(moved);
}

Result<std::size_t> Endpoint::nothing_to_take(int peer) {
  const Presence presence = segment_->presence(peer).load();
  if (!is_gone(presence)) {
    SABOT_TRY(look(state_->receives[static_cast<std::size_t>(peer)].watch, 0, 0));
    return std::size_t{0};
  }
  // It may have put something after the look and before it left.
  if (has_bytes(peer)) return std::size_t{0};
  return gone(peer, presence);
}

bool Endpoint::has_bytes(int peer) const {
  if (peer < 0 || peer >= world_) return false;
  Direction& direction = state_->receives[static_cast<std::size_t>(peer)];
  return Inlet(*segment_, peer, rank_, direction).arrived();
}

}  // namespace sabot::host
