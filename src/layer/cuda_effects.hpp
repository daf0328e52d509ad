// What faults do on CUDA streams.
//
// hold     The stream itself waits on a word of host memory, which only the CPU changes: a stream
//          shares a hardware queue with others, so that a release which needed a GPU might never
//          come. The limit is minded by a thread of ours (hold_watch.hpp), from the moment the
//          stream arrives. Where driver or device have no such wait, a kernel of one thread spins.
// corrupt  A kernel changes the elements and keeps their old bytes; restore puts them back.
//
// While a stream is being captured into a graph, nothing waits: a hold becomes a spinning kernel
// and a corruption a kernel in the graph, and each acts at every replay, with the same duration,
// places and values. A hold that was ended, by its communicator, by `sabot ctl release` or at exit,
// stays open: later replays pass. So does the limit count at each replay anew. What belongs to a
// graph is held until the driver says that the graph is gone. The number of firings stays that of
// the calls at capture: a replay is no call.
//
// Loading a kernel waits for the kernels that run, so prepare() does it once per context before
// there are any (B16). A first fault without it loads what it needs: a hold outside graphs,
// nothing. The context, the capture mode and the capture state of the caller are as before after
// each call (B9); the driver interface leaves no last error. A stream that is none of the
// application's handles but the legacy or the per-thread one is that of the communicator's device
// (B14).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "layer/hold_watch.hpp"
#include "layer/stream_effects.hpp"

namespace sabot::driver {
class Driver;
}  // namespace sabot::driver

namespace sabot::layer {

class CudaEffects final : public StreamEffects {
 public:
  // Opens the driver; called once, at the first effect. Its error is given to every fault.
  using Open = std::function<Result<std::unique_ptr<driver::Driver>>()>;
  // The number of the device that a communicator uses: NCCL's CommCuDevice.
  using DeviceOf = std::function<Result<int>(const void* comm)>;

  CudaEffects(Open open, DeviceOf device_of);
  ~CudaEffects() override;
  CudaEffects(const CudaEffects&) = delete;
  CudaEffects& operator=(const CudaEffects&) = delete;

  // Loads the kernels and maps the memory in the device's primary context. To be called when a
  // communicator has been created and faults may act on its streams; may take milliseconds.
  Status prepare(int device);

  bool is_immediate(const abi::Call&) const override { return false; }
  Result<Hold::Word> make_word(const abi::Call& call) override;
  Status hold(const abi::Call& call, std::shared_ptr<Hold> hold) override;
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
