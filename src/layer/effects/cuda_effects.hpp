// What faults do on CUDA streams.
//
// A held stream waits on a word of host memory, which only the CPU changes: a stream shares a
// hardware queue with others, so that a release which needed a GPU might never come. A thread of
// ours minds the limit, from the moment the stream arrives (hold_watch.hpp). Where driver or device
// have no such wait, a kernel of one thread spins. A kernel also changes elements, keeps their old
// bytes, and puts them back.
//
// While a stream is being captured into a graph, all of it becomes kernels of the graph, which act
// at every replay: see hold() and corrupt(). Loading a kernel waits for the kernels that run, so
// prepare() does it before there are any (B16). Context, capture mode and capture state are the
// caller's again after each call (B9), and the driver interface leaves no last error.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "layer/effects/stream_effects.hpp"
#include "layer/hold/hold_watch.hpp"

namespace sabot::driver {
class Driver;
}  // namespace sabot::driver

namespace sabot::layer {

class CudaEffects final : public StreamEffects {
 public:
  // A stream that is no handle of the application's but the legacy or the per-thread stream is that
  // of the communicator's device (B14).
  //
  // Opens the driver; called once, at the first effect. Its error is given to every fault.
  using Open = std::function<Result<std::unique_ptr<driver::Driver>>()>;
  // The number of the device that a communicator uses: NCCL's CommCuDevice.
  using DeviceOf = std::function<Result<int>(const void* comm)>;

  CudaEffects(Open open, DeviceOf device_of);
  ~CudaEffects() override;
  CudaEffects(const CudaEffects&) = delete;
  CudaEffects& operator=(const CudaEffects&) = delete;

  // Loads the kernels and maps the memory in the device's primary context. To be called when a
  // communicator has been created and faults may act on its streams; the first time takes about
  // 0.1 s. What was not prepared is loaded by the first fault that needs it: a hold outside graphs
  // needs nothing.
  Status prepare(int device);

  bool is_immediate(const abi::Call&) const override { return false; }
  Result<Hold::Word> make_word(const abi::Call& call) override;
  // Captured: the limit counts at each replay anew. A hold that was ended, by its communicator, by
  // `sabot ctl release` or at exit, stays open, and later replays pass. It is over when the graph
  // and all that was made from it is gone, until when its cell is held.
  Status hold(const abi::Call& call, std::shared_ptr<Hold> hold) override;
  // Captured: each replay changes, and restores, the same elements, whatever they hold then. One
  // firing stands for all replays, since a replay is no call.
  Result<std::unique_ptr<Undo>> corrupt(const abi::Call& call, const CorruptionPlan& plan) override;
  Status restore(const abi::Call& call, std::unique_ptr<Undo> undo) override;
  Result<bool> captured(const void* stream) override;

  // For tests: cells that nothing holds, and whether the thread runs.
  struct Usage {
    std::size_t gates_free;
    std::size_t saves_free;
    bool is_watching;
  };
  Result<Usage> usage();

 private:
  struct Core;
  struct Arrived;
  struct Save;
  class CudaUndo;

  Result<std::shared_ptr<Core>> core();
  Result<Arrived> arrive(const abi::Call& call);

  const Open open_;
  const DeviceOf device_of_;
  std::mutex mutex_;
  std::shared_ptr<Core> core_;
  std::string refusal_;  // why there is no core
  // Holds of which half was put on a stream: their cells are never used again.
  std::vector<std::shared_ptr<Hold>> stranded_;
  HoldWatch watch_;
};

}  // namespace sabot::layer
