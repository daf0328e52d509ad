// The seam to an engine's streams: what a fault does to work in the order of a stream.
//
// Two forms: the host engine's streams (stack/host_effects.hpp) and CUDA's (cuda_effects.hpp). All
// functions return at once, whatever is put on the stream: nothing here synchronises the caller. A
// stream whose work is done in the calling thread (the null stream of the host engine) has no order
// to put anything into: there the layer waits by itself and effects act at once. An error says why
// the effect cannot be had, for a person; then nothing was put on the stream. Thread-safe.
#pragma once

#include <memory>

#include "abi/call.hpp"
#include "base/result.hpp"
#include "layer/hold/hold.hpp"
#include "layer/payload/corruption.hpp"

namespace sabot::layer {

// The old values of elements that were changed, and where they belong.
class Undo {
 public:
  virtual ~Undo() = default;
};

class StreamEffects {
 public:
  virtual ~StreamEffects() = default;

  // Whether the call's work is done in the calling thread, before the call or its outermost
  // GroupEnd returns.
  virtual bool is_immediate(const abi::Call& call) const = 0;

  // The word for a hold on this call's stream, 0.
  virtual Result<Hold::Word> make_word(const abi::Call&) {
    return std::make_shared<std::atomic<std::uint32_t>>(0);
  }
  // Work put on the stream from now on waits until the hold's word is not 0, or its limit is over,
  // counted from the moment the stream arrives. The hold's owner keeps it until it is_over().
  // Precondition: not is_immediate(call).
  virtual Status hold(const abi::Call& call, std::shared_ptr<Hold> hold) = 0;

  // Changes the elements of plan.buffer once the stream arrives here. Where plan.kept is not 0,
  // what is returned holds their old values for restore(); else it is null.
  virtual Result<std::unique_ptr<Undo>> corrupt(const abi::Call& call,
                                                const CorruptionPlan& plan) = 0;
  // Puts the old values of the kept places back once the stream arrives here. undo: of corrupt().
  virtual Status restore(const abi::Call& call, std::unique_ptr<Undo> undo) = 0;

  // Whether this stream is being captured into a graph (B12).
  virtual Result<bool> captured(const void* stream) = 0;

  // The communicator is about to end: nothing put on its streams may refer to it any more.
  virtual void forget(const void* comm) { (void)comm; }
};

}  // namespace sabot::layer
