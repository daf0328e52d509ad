// The seam to the links below an engine: drop, delay, throttle and cut, per peer.
//
// Null where nothing of ours carries the bytes; then a `link` fault is refused with a text.
// Thread-safe.
#pragma once

#include "abi/call.hpp"
#include "base/result.hpp"
#include "layer/hold/hold.hpp"

namespace sabot::scenario {
struct Act;
}

namespace sabot::layer {

class LinkEffects {
 public:
  virtual ~LinkEffects() = default;

  // From now on the links of call.comm, to the peers that the act names, behave as it says: for
  // act.limit_ns, or until released or the communicator ends. An error says why that cannot be had,
  // for a person.
  virtual Status apply(const scenario::Act& act, const abi::Call& call, FaultId fault) = 0;
  // What this fault did ends.
  virtual void release(FaultId fault) = 0;
  virtual void release_all() = 0;
  // The communicator is about to end.
  virtual void forget(const void* comm) = 0;
};

}  // namespace sabot::layer
