// Looking rules up, and what they mean for a message.
#include "engine/host/gate.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "engine/host/endpoint.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {

using schedule::RankMask;

// Looks at all peers, so that a communicator whose rules are over is idle again.
sabot_link_rule_t Gate::sum_over(RankMask peers) {
  const std::lock_guard lock(mutex_);
  seen_.store(rules_->generation());
  sabot_link_rule_t sum{};
  bool any = false;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    const sabot_link_rule_t rule = rules_->rule_for(peer);
    any = any || rule.effects != 0;
    if ((peers & bit(peer)) == 0) continue;
    sum.effects |= rule.effects;
    sum.delay_ns = std::max(sum.delay_ns, rule.delay_ns);
    if (rule.rate_bytes_per_s != 0 &&
        (sum.rate_bytes_per_s == 0 || rule.rate_bytes_per_s < sum.rate_bytes_per_s))
      sum.rate_bytes_per_s = rule.rate_bytes_per_s;
  }
  has_rules_.store(any);
  return sum;
}

std::optional<Gate::Cut> Gate::cut(RankMask peers) {
  for (peers &= ~bit(rank_); peers != 0; peers &= peers - 1) {
    const int peer = std::countr_zero(peers);
    const sabot_link_rule_t rule = rules_->rule_for(peer);
    if ((rule.effects & SABOT_LINK_CUT) == 0) continue;
    return Cut{peer, "the link between rank " + std::to_string(rank_) + " and rank " +
                         std::to_string(peer) + " was cut by the fault '" + rule.fault + "'"};
  }
  return std::nullopt;
}

Gate::Passage Gate::pass(RankMask readers, std::size_t bytes, std::uint64_t& due_ns) {
  const sabot_link_rule_t rule = sum_over(readers);
  if ((rule.effects & SABOT_LINK_PARTITION) != 0) return Passage::kHeld;
  if ((rule.effects & SABOT_LINK_DROP) != 0) return Passage::kLost;
  const std::uint64_t now = rule.effects == 0 ? 0 : now_ns();
  if ((rule.effects & SABOT_LINK_DELAY) != 0) {
    if (due_ns == 0) due_ns = now;
    if (now < due_ns + rule.delay_ns) return Passage::kHeld;
  }
  if (rule.rate_bytes_per_s != 0) {
    if (pace_.allowance(bytes, rule.rate_bytes_per_s, now) == 0 && bytes != 0)
      return Passage::kHeld;
    pace_.went(bytes, rule.rate_bytes_per_s, now);
  }
  due_ns = 0;
  return Passage::kOpen;
}

bool Gate::is_closed(RankMask sources) {
  return (sum_over(sources).effects & SABOT_LINK_PARTITION) != 0;
}

void Endpoint::heed(std::unique_ptr<const link::net::RuleSource> rules) {
  gate_ = std::make_unique<Gate>(std::move(rules), rank_, world_);
}

Result<Gate::Passage> Endpoint::pass(RankMask readers, std::size_t bytes, std::uint64_t& due_ns) {
  if (gate_ == nullptr || gate_->is_idle()) return Gate::Passage::kOpen;
  if (const auto cut = gate_->cut(readers))
    return poison(link::FailureKind::kDeclared, cut->peer, cut->text);
  return gate_->pass(readers, bytes, due_ns);
}

Result<bool> Endpoint::is_closed(RankMask sources) {
  if (gate_ == nullptr || gate_->is_idle()) return false;
  if (const auto cut = gate_->cut(sources))
    return poison(link::FailureKind::kDeclared, cut->peer, cut->text);
  return gate_->is_closed(sources);
}

}  // namespace sabot::host
