// The rules of the Sabot of this process, found by name; without one, no rules.
#pragma once

#include "link/net/rules.hpp"

namespace sabot::link::net {

class ProcessRules final : public RuleSource {
 public:
  // Looks among the libraries loaded so far, once, and lets Sabot know that somebody acts on rules.
  // world_rank: of this process, -1 if it is not known.
  explicit ProcessRules(int world_rank);

  // Whether there is a Sabot that gives rules.
  bool is_connected() const { return rule_for_ != nullptr; }
  std::uint64_t generation() const override;
  sabot_link_rule_t rule_for(int peer_world_rank) const override;

 private:
  int world_rank_;
  decltype(&::sabot_link_generation) generation_ = nullptr;
  decltype(&::sabot_link_rule_for) rule_for_ = nullptr;
};

}  // namespace sabot::link::net
