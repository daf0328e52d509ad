// Finding the rules of the process.
#include "link/net/process_rules.hpp"

#include <dlfcn.h>

#include <cstddef>

#include "sabot/stack.h"

namespace sabot::link::net {
namespace {

template <typename Function>
Function* function_of(void* address) {
  return reinterpret_cast<Function*>(address);
}

}  // namespace

ProcessRules::ProcessRules(int world_rank) : world_rank_(world_rank) {
  void* found = ::dlsym(RTLD_DEFAULT, "sabot_stack_v1");
  if (found == nullptr) return;
  const sabot_stack_info_t* stack = function_of<decltype(sabot_stack_v1)>(found)();
  constexpr std::size_t kNeeded =
      offsetof(sabot_stack_info_t, host_function) + sizeof stack->host_function;
  if (stack == nullptr || stack->size < kNeeded || stack->host_function == nullptr) return;
  void* generation = stack->host_function("sabot_link_generation");
  void* rule_for = stack->host_function("sabot_link_rule_for");
  if (generation == nullptr || rule_for == nullptr) return;
  generation_ = function_of<decltype(::sabot_link_generation)>(generation);
  rule_for_ = function_of<decltype(::sabot_link_rule_for)>(rule_for);
  this->rule_for(-1);
}

std::uint64_t ProcessRules::generation() const {
  return generation_ == nullptr ? 0 : generation_();
}

sabot_link_rule_t ProcessRules::rule_for(int peer_world_rank) const {
  sabot_link_rule_t rule{};
  rule.size = sizeof rule;
  const sabot_link_query_t query{sizeof query, world_rank_, peer_world_rank};
  if (rule_for_ == nullptr || rule_for_(&query, &rule) != 0) return {};
  rule.fault[sizeof rule.fault - 1] = '\0';
  return rule;
}

}  // namespace sabot::link::net
