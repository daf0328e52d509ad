// The seam through which a waiting rank learns that a peer's process is gone.
//
// Stands in link because both sides of it do: module world implements it (it holds a connection or
// a process handle to every peer), module engine/host asks it. fake_liveness.hpp is the form for
// tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sabot::link {

struct DeadPeer {
  int rank = -1;
  std::string what;  // how it is known, continues "rank 2 …": "died (process 4711 was killed)"
};

class Liveness {
 public:
  virtual ~Liveness() = default;
  // The first peer known to be dead, if any. Must not block and must be callable from any thread;
  // asked about every 20 ms by a rank that waits, never on the fast path. A peer that left its
  // communicator cleanly and then exited may be reported: the caller knows that it left and ignores
  // it.
  virtual std::optional<DeadPeer> check() = 0;
  // The same among the ranks that are not in `ignored` (bit r = rank r): those known to have left.
  // To be overridden where several peers can be dead at once, lest one that left hides another that
  // died.
  virtual std::optional<DeadPeer> check_except(std::uint64_t ignored) {
    auto dead = check();
    if (dead && (ignored >> dead->rank & 1) != 0) dead.reset();
    return dead;
  }
};

}  // namespace sabot::link
