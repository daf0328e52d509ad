// What all connections of this process share: who it is, whose rules hold, and the pace to each
// peer.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "link/net/flow.hpp"

namespace sabot::link::net {

class Endpoint {
 public:
  // rules outlives the endpoint and every connection.
  Endpoint(Identity self, const RuleSource& rules) : self_(self), rules_(rules) {}

  const Identity& self() const { return self_; }
  const RuleSource& rules() const { return rules_; }
  sabot_link_rule_t rule_for(const Identity& peer) const {
    return rules_.rule_for(peer.world_rank);
  }

  // Everything a flow needs. Any thread.
  Connection connection(Fd fd, const Peer& peer);

 private:
  Identity self_;
  const RuleSource& rules_;
  Roster roster_;
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Pace>> paces_;  // by world rank; unknown peers have one each
};

}  // namespace sabot::link::net
