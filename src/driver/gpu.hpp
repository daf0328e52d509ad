// What a context needs so that faults can act on its streams, made once (B16): cells of host memory
// that are mapped, and kernels that are loaded and have run.
//
// Loading a kernel waits for the kernels that run (measured, docs/results); if one of them waits
// for us, for ever. So all of it is to be made ready when a communicator is created. What was not
// is made at the first fault that needs it: a wait of the stream's own needs no kernel.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/driver.hpp"
#include "driver/kernels.hpp"
#include "driver/pages.hpp"

namespace sabot::driver {

// One wait on a stream. The CPU writes release, the GPU the others; nobody goes back.
struct alignas(64) GateCell {
  std::atomic<std::uint32_t> release{0};
  std::atomic<std::uint32_t> arrival{0};
  std::atomic<std::uint32_t> departure{0};
};
static_assert(sizeof(GateCell) == 64);

// The old bytes of one edit; 1 in changed and restored once the kernels are through.
struct alignas(64) SaveCell {
  std::array<std::uint64_t, kEditElementsMax> saved{};
  std::atomic<std::uint32_t> changed{0};
  std::atomic<std::uint32_t> restored{0};
};

struct Kernels {
  Kernel spin = nullptr;  // null: see refusal
  Kernel edit = nullptr;
  std::string refusal;  // why there are none
};

struct Gpu {
  Context context = nullptr;
  Address gates = 0;  // of the pages, in this context
  Address saves = 0;
  std::atomic<const Kernels*> kernels{nullptr};  // null: not asked for yet
};

// The contexts of this process that faults have touched. Thread-safe.
class Gpus {
 public:
  static constexpr std::size_t kContextsMax = 64;
  static constexpr std::size_t kGatesMax = 4096;  // waits at a time, 256 KiB
  static constexpr std::size_t kSavesMax = 512;   // edits not yet restored, 288 KiB

  static Result<std::unique_ptr<Gpus>> create(Driver& driver);

  // The current context, which the caller visits (visit.hpp), its memory mapped the first time.
  // Lives as long as this.
  Result<Gpu*> enter(Context context);
  // Its kernels, loaded the first time.
  const Kernels& kernels(Gpu& gpu);

  Driver& driver() { return driver_; }
  Pages<GateCell>& gates() { return *gates_; }
  Pages<SaveCell>& saves() { return *saves_; }

 private:
  Gpus(Driver& driver, std::unique_ptr<Pages<GateCell>> gates,
       std::unique_ptr<Pages<SaveCell>> saves);
  Gpu* find(Context context) const;
  Status load(const Gpu& gpu, Kernels& kernels);
  Status warm_up(const Gpu& gpu, const Kernels& kernels);

  Driver& driver_;
  const std::unique_ptr<Pages<GateCell>> gates_;
  const std::unique_ptr<Pages<SaveCell>> saves_;
  GateCell* const open_gate_;  // for warming up: nobody waits at it
  std::mutex preparing_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<std::unique_ptr<Kernels>> kernels_;
  std::array<std::atomic<Gpu*>, kContextsMax> known_{};
};

// --- Work on a stream of a context that is entered and visited -----------------------------------

// Where a gate's limit is watched.
enum class Limit : std::uint8_t {
  kByCpu,  // the stream waits for the release word alone
  kByGpu,  // a kernel of ours waits, and looks at the GPU's clock
};

// The stream stops at the gate until its release word is not 0; see kernels.hpp for the words. The
// wait is one of the stream itself where it has that, else of a kernel. After an error the stream
// may still write to the cell, but it does not wait.
Result<Limit> put_gate(Gpus& gpus, Gpu& gpu, Stream stream, GateCell& cell, std::uint64_t limit_ns);

// The same with a kernel in any case: what can be captured and acts at each replay. limit_ns 0: no
// limit. The words of arrival and departure are not written.
Status put_captured_gate(Gpus& gpus, Gpu& gpu, Stream stream, GateCell& cell,
                         std::uint64_t limit_ns);

// parameters without addresses of the cell; cell: null keeps nothing.
Status put_edit(Gpus& gpus, Gpu& gpu, Stream stream, SaveCell* cell, EditParameters parameters);

}  // namespace sabot::driver
