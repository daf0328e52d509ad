// Faults that the program arms and disarms while it runs.
#include "stack/layers.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

constexpr std::uint64_t kLeaveTimeoutNs = 10'000'000'000;  // a program's callback may take a while

}  // namespace

Result<std::uint64_t> Stack::inject(std::string_view text, layer::FiredCallback callback) {
  if (!failure_.empty()) return Error(Code::kSystem, failure_);
  if (layers_ == nullptr)
    return Error(Code::kInvalidUsage,
                 "nothing can be injected: Sabot is switched off by SABOT_DISABLE");
  const scenario::Scenario scenario = SABOT_TRY(read_injection(settings_, text));
  after_creation();  // a forked child that injects acts for itself
  follow();
  const std::uint64_t id = ++injections_;
  layers_->plans().add(std::make_shared<layer::Injection>(id, scenario, *recorder_, callback));
  publish_entries();
  return id;
}

Result<Stack::Withdrawal> Stack::withdraw(std::uint64_t id) {
  const bool may_have = layers_ != nullptr && !is_forked_child();
  const std::shared_ptr<layer::Injection> injection =
      may_have ? layers_->plans().remove(id) : nullptr;
  if (injection == nullptr)
    return Error(Code::kNotFound, "there is no injection " + std::to_string(id) +
                                      " in this process; each is withdrawn once");
  publish_entries();
  Withdrawal withdrawal;
  withdrawal.is_left = layers_->plans().wait_until_left(*injection, kLeaveTimeoutNs);
  withdrawal.fired_count = injection->fired_count();
  withdrawal.why_not = injection->why_not();
  return withdrawal;
}

}  // namespace sabot::stack
