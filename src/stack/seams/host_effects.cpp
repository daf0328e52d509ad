// Tasks on the host engine's streams; at once where there is no order.
#include "stack/seams/host_effects.hpp"

#include <functional>
#include <utility>

#include "comm/stream.hpp"
#include "layer/hold/holds.hpp"

namespace sabot::stack::seams {
namespace {

struct Kept {
  layer::CorruptionPlan plan;
  layer::OldBits old;
};

// The stream may be past the corruption or not: both tasks share what is kept.
struct HostUndo final : layer::Undo {
  std::shared_ptr<Kept> kept;
};

cudaStream_t stream_of(const abi::Call& call) {
  return static_cast<cudaStream_t>(const_cast<void*>(call.stream));
}

Status in_order(const abi::Call& call, std::function<void()> task) {
  if (!comm::is_immediate(stream_of(call))) return comm::put_task(stream_of(call), std::move(task));
  task();
  return {};
}

}  // namespace

bool HostEffects::is_immediate(const abi::Call& call) const {
  return comm::is_immediate(stream_of(call));
}

Status HostEffects::hold(const abi::Call& call, std::shared_ptr<layer::Hold> hold) {
  return in_order(call, [hold = std::move(hold)] { layer::wait_for(*hold, [] { return false; }); });
}

Result<std::unique_ptr<layer::Undo>> HostEffects::corrupt(const abi::Call& call,
                                                          const layer::CorruptionPlan& plan) {
  auto kept = std::make_shared<Kept>(Kept{plan, {}});
  SABOT_TRY(in_order(call, [kept] { kept->old = layer::apply(kept->plan); }));
  if (plan.kept == 0) return std::unique_ptr<layer::Undo>();
  auto undo = std::make_unique<HostUndo>();
  undo->kept = std::move(kept);
  return std::unique_ptr<layer::Undo>(std::move(undo));
}

Status HostEffects::restore(const abi::Call& call, std::unique_ptr<layer::Undo> undo) {
  return in_order(
      call, [kept = static_cast<HostUndo&>(*undo).kept] { layer::restore(kept->plan, kept->old); });
}

}  // namespace sabot::stack::seams
