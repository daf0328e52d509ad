// What faults do on streams of the host engine.
//
// A stream made by sabot_stream_create runs tasks of ours in its order; the null stream has no
// order: what is put there happens at once. Nothing is ever captured into a graph.
#pragma once

#include "layer/effects/stream_effects.hpp"

namespace sabot::stack::seams {

class HostEffects final : public layer::StreamEffects {
 public:
  bool is_immediate(const abi::Call& call) const override;
  Status hold(const abi::Call& call, std::shared_ptr<layer::Hold> hold) override;
  Result<std::unique_ptr<layer::Undo>> corrupt(const abi::Call& call,
                                               const layer::CorruptionPlan& plan) override;
  Status restore(const abi::Call& call, std::unique_ptr<layer::Undo> undo) override;
  Result<bool> captured(const void*) override { return false; }
};

}  // namespace sabot::stack::seams
