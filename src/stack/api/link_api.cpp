// The functions of sabot/link.h: the rules of the copy of Sabot that owns the stack.
//
// They neither open the stack nor allocate: a process whose first call is still to come has no
// rules, and a carrier asks before everything that it moves.
#include <cstring>

#include "base/clock.hpp"
#include "layer/effects/link_rules.hpp"
#include "sabot/link.h"

#define SABOT_PUBLIC extern "C" __attribute__((visibility("default")))

SABOT_PUBLIC uint64_t sabot_link_generation(void) {
  return sabot::layer::LinkRules::process().generation();
}

SABOT_PUBLIC int sabot_link_rule_for(const sabot_link_query_t* query, sabot_link_rule_t* rule) {
  if (query == nullptr || rule == nullptr || query->size < sizeof *query ||
      rule->size < sizeof *rule)
    return -1;
  sabot::layer::LinkRules& rules = sabot::layer::LinkRules::process();
  rules.note_carrier(sabot::layer::LinkRules::Carrier::kNetPlugin);
  const size_t size = rule->size;
  *rule = rules.between(query->world_rank, query->peer_world_rank, sabot::monotonic_ns());
  rule->size = size;
  return 0;
}
