// The rules of link faults, as a connection sees them: asked again only when something changed.
//
// RuleSource is the seam to whoever decides (process_rules.hpp; by hand in tests). RuleView is one
// peer's rule, kept beside the connection: looking costs one call and a comparison while nothing
// changes. Pace turns bytes per second into a moment, shared by all connections to a peer.
#pragma once

#include <atomic>
#include <cstdint>

#include "link/net/address.hpp"
#include "sabot/link.h"

namespace sabot::link::net {

class RuleSource {
 public:
  virtual ~RuleSource() = default;
  // As in sabot/link.h; any thread.
  virtual std::uint64_t generation() const = 0;
  virtual sabot_link_rule_t rule_for(int peer_world_rank) const = 0;
};

// One thread at a time.
class RuleView {
 public:
  RuleView(const RuleSource& source, int peer_world_rank)
      : source_(source), peer_(peer_world_rank) {}

  // What holds now.
  const sabot_link_rule_t& now() {
    const std::uint64_t generation = source_.generation();
    const bool is_over = rule_.until_ns != 0 && monotonic_ns() >= rule_.until_ns;
    if (generation != generation_ || is_over) {
      generation_ = generation;
      rule_ = source_.rule_for(peer_);
    }
    return rule_;
  }

 private:
  const RuleSource& source_;
  int peer_;
  std::uint64_t generation_ = 0;
  sabot_link_rule_t rule_{};
};

// How fast bytes may go to one peer. Any thread.
class Pace {
 public:
  // How many of `bytes` may go now, at least 1 or none. What is let go has to be told by went().
  std::uint64_t allowance(std::uint64_t bytes, std::uint64_t rate_bytes_per_s,
                          std::uint64_t at_ns) const;
  void went(std::uint64_t bytes, std::uint64_t rate_bytes_per_s, std::uint64_t at_ns);

 private:
  // When all that went has had its time. Relaxed: it is a budget, and publishes nothing.
  std::atomic<std::uint64_t> busy_until_ns_{0};
};

}  // namespace sabot::link::net
