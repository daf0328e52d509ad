// Making connections: socket options, and the pace that connections to one rank share.
#include "link/net/endpoint.hpp"

namespace sabot::link::net {

Connection Endpoint::connection(Fd fd, const Peer& peer) {
  prepare_for_messages(fd.get());
  const int rank = peer.identity.world_rank;
  std::shared_ptr<Pace> pace;
  if (rank >= 0) {
    const std::lock_guard lock(mutex_);
    pace = paces_[rank].lock();
    if (pace == nullptr) paces_[rank] = pace = std::make_shared<Pace>();
  } else {
    pace = std::make_shared<Pace>();
  }
  return {std::move(fd), peer, std::move(pace), &rules_, &roster_, self_.world_rank};
}

}  // namespace sabot::link::net
