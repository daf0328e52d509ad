// The table of link rules: rows put in, taken out and added up.
#include "layer/effects/link_rules.hpp"

#include <sched.h>

#include <cstring>
#include <string>

#include "base/clock.hpp"

namespace sabot::layer {
namespace {

std::uint32_t effect_of(scenario::LinkKind kind) {
  switch (kind) {
    case scenario::LinkKind::kDrop: return SABOT_LINK_DROP;
    case scenario::LinkKind::kDelay: return SABOT_LINK_DELAY;
    case scenario::LinkKind::kThrottle: return SABOT_LINK_THROTTLE;
    case scenario::LinkKind::kCut: return SABOT_LINK_CUT;
    case scenario::LinkKind::kPartition: return SABOT_LINK_PARTITION;
  }
  return 0;
}

// Which fault a message names where several have effects. A rule has one.
int strength_of(std::uint32_t effect) {
  switch (effect) {
    case SABOT_LINK_CUT: return 5;
    case SABOT_LINK_PARTITION: return 4;
    case SABOT_LINK_DROP: return 3;
    case SABOT_LINK_THROTTLE: return 2;
    default: return 1;
  }
}

bool names(std::uint64_t peers, int peer) {
  if (peers == scenario::kAllPeers) return true;
  return peer >= 0 && peer < 64 && (peers >> peer & 1U) != 0;
}

// Ranks of a communicator that is the whole world are world ranks.
bool ranks_are_world_ranks(const abi::Call& call) {
  return call.world_rank >= 0 && call.rank == call.world_rank &&
         std::strchr(call.comm_label, '/') == nullptr;
}

}  // namespace

LinkRules::Lock::Lock(std::atomic<bool>& word) : word_(word) {
  // pairs with: Lock
  while (word_.exchange(true, std::memory_order_acquire)) ::sched_yield();
}

LinkRules::Lock::~Lock() {
  // pairs with: Lock
  word_.store(false, std::memory_order_release);
}

LinkRules& LinkRules::process() {
  static LinkRules rules;
  return rules;
}

LinkRules::Rule* LinkRules::row_for(const abi::Call& call, FaultId fault, std::uint64_t now_ns) {
  Rule* free_row = nullptr;
  for (Rule& rule : rules_) {
    const bool is_over = rule.until_ns != 0 && rule.until_ns <= now_ns;
    if (rule.effects != 0 && !is_over) {
      if (rule.comm == call.comm && rule.rank == call.rank && rule.fault == fault) return &rule;
    } else if (free_row == nullptr) {
      free_row = &rule;
    }
  }
  return free_row;
}

Status LinkRules::apply(const scenario::Act& act, const abi::Call& call, Carrier carrier,
                        FaultId fault, std::string_view name) {
  SABOT_TRY(check(act, call, carrier));
  const std::uint64_t now = monotonic_ns();
  const Lock lock(locked_);
  Rule* rule = row_for(call, fault, now);
  if (rule == nullptr)
    return Error(Code::kInvalidUsage, std::to_string(kRulesMax) +
                                          " link faults hold in this process already; end them by "
                                          "`for`, or limit them by `budget`");
  *rule = Rule{};
  rule->carrier = carrier;
  rule->comm = call.comm;
  rule->rank = call.rank;
  rule->world_rank = call.world_rank;
  rule->effects = effect_of(act.link);
  rule->peers = act.peers;
  rule->delay_ns = act.link == scenario::LinkKind::kDelay ? act.duration_ns : 0;
  rule->rate_bytes_per_s = act.link == scenario::LinkKind::kThrottle ? act.rate_bytes_per_s : 0;
  rule->until_ns = act.limit_ns == 0 ? 0 : now + act.limit_ns;
  rule->fault = fault;
  name.copy(rule->name, sizeof rule->name - 1);
  changed();
  return {};
}

Status LinkRules::check(const scenario::Act& act, const abi::Call& call, Carrier carrier) const {
  const bool is_carried = has_carrier_[static_cast<std::size_t>(carrier)].load();
  if (carrier == Carrier::kHostEngine) {
    if (is_carried) return {};
    return Error(Code::kUnsupported,
                 "the host engine of this build moves its bytes without asking for link faults");
  }
  if (!is_carried)
    return Error(Code::kUnsupported,
                 "nothing carries the bytes of this process under Sabot's control; start it by "
                 "`sabot run`, which sets NCCL_NET_PLUGIN where the scenario has a link fault");
  if (act.peers == scenario::kAllPeers || ranks_are_world_ranks(call)) return {};
  return Error(Code::kUnsupported,
               "the peers of communicator " + std::string(call.comm_label) +
                   " have no known world ranks, by which the network plugin tells them apart; "
                   "leave `peer` out, or fault a communicator of all ranks and set RANK");
}

template <typename Matches>
void LinkRules::remove_if(Matches matches) {
  const Lock lock(locked_);
  bool any = false;
  for (Rule& rule : rules_) {
    if (rule.effects == 0 || !matches(rule)) continue;
    rule.effects = 0;
    any = true;
  }
  if (any) changed();
}

void LinkRules::release(FaultId fault) {
  remove_if([&](const Rule& rule) { return rule.fault == fault; });
}

void LinkRules::release_all() {
  remove_if([](const Rule&) { return true; });
}

void LinkRules::end_comm(const void* comm) {
  remove_if([&](const Rule& rule) { return rule.comm == comm; });
}

void LinkRules::forget() noexcept {
  for (Rule& rule : rules_) rule.effects = 0;
  locked_.store(false);
  changed();
}

template <typename Matches>
sabot_link_rule_t LinkRules::sum_of(std::uint64_t now_ns, Matches matches) const {
  sabot_link_rule_t sum{};
  sum.size = sizeof sum;
  int strongest = 0;
  const Lock lock(locked_);
  for (const Rule& rule : rules_) {
    const bool is_over = rule.until_ns != 0 && rule.until_ns <= now_ns;
    if (rule.effects == 0 || is_over || !matches(rule)) continue;
    sum.effects |= rule.effects;
    sum.delay_ns += rule.delay_ns;
    if ((rule.effects & SABOT_LINK_THROTTLE) != 0 &&
        (sum.rate_bytes_per_s == 0 || rule.rate_bytes_per_s < sum.rate_bytes_per_s))
      sum.rate_bytes_per_s = rule.rate_bytes_per_s;
    if (rule.until_ns != 0 && (sum.until_ns == 0 || rule.until_ns < sum.until_ns))
      sum.until_ns = rule.until_ns;
    if (strength_of(rule.effects) <= strongest) continue;
    strongest = strength_of(rule.effects);
    std::memcpy(sum.fault, rule.name, sizeof sum.fault);
  }
  return sum;
}

sabot_link_rule_t LinkRules::between(int world_rank, int peer_world_rank,
                                     std::uint64_t now_ns) const {
  return sum_of(now_ns, [&](const Rule& rule) {
    const bool is_same_rank =
        world_rank < 0 || rule.world_rank < 0 || rule.world_rank == world_rank;
    return rule.carrier == Carrier::kNetPlugin && is_same_rank &&
           names(rule.peers, peer_world_rank);
  });
}

sabot_link_rule_t LinkRules::within(const void* comm, int rank, int peer,
                                    std::uint64_t now_ns) const {
  return sum_of(now_ns, [&](const Rule& rule) {
    return rule.carrier == Carrier::kHostEngine && rule.comm == comm && rule.rank == rank &&
           names(rule.peers, peer);
  });
}

Status RuledLinks::apply(const scenario::Act& act, const abi::Call& call, FaultId fault) {
  const bool is_named = fault.plan == 0 && fault.index < names_.size();
  const std::string name =
      is_named ? names_[fault.index] : "injection " + std::to_string(fault.plan);
  return rules_.apply(act, call, carrier_, fault, name);
}

}  // namespace sabot::layer
