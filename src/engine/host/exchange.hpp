// Send and receive: chunks through the channel of an ordered pair. Private to this module.
//
// The first chunk is sent without asking, so a small send never waits for its receiver; the
// signature in every chunk lets the receiver notice a send of another size before it touches its
// buffer.
#pragma once

#include "engine/host/endpoint.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {

class Exchange {
 public:
  explicit Exchange(Task& task);

  // Precondition: a send or receive that was started and is neither done nor failed.
  Progress advance();

 private:
  Progress send();
  Progress receive();
  Progress wait_for_peer();
  Progress finish();
  // How much of the message goes into the next chunk.
  std::size_t left(std::size_t chunk_bytes_max) const;

  Endpoint& endpoint_;
  Task& task_;
  bool sends_;
  Direction& direction_;
  std::uint64_t total_bytes_;
};

}  // namespace sabot::host
