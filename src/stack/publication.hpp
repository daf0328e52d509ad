// Where the entries lead: straight to the engine while no layer is active (B10), else to the
// bridge.
//
// Between the two lies *following*: what makes and ends communicators, opens and closes groups goes
// through the bridge, everything else past it. Then a fault that is injected later finds labels and
// open groups as if it had been there from the beginning.
#pragma once

namespace sabot::stack {

class RealEngine;

struct Publication {
  const RealEngine* real = nullptr;  // null: the engine of this process is the host engine
  bool is_bridged = false;
  bool is_following = false;
  bool has_beside = false;  // the host engine lies beside the real one
};

// One caller at a time; other threads may be jumping through the entries.
void publish(const Publication& publication);
// No engine: every entry leads to kRefusing.
void publish_refusal();

}  // namespace sabot::stack
