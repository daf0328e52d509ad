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
  bool send_chunk();
  Progress receive();
  Progress finish();
  std::size_t chunk_bytes() const;

  Endpoint& endpoint_;
  Task& task_;
  bool sends_;
  Direction& direction_;
  link::Slots channel_;
  std::uint64_t total_bytes_;
};

}  // namespace sabot::host
