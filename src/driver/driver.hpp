// The few things that Sabot asks of the CUDA driver: the seam, with a real form (cuda_driver.hpp)
// and a fake one (fake_driver.hpp).
//
// Every function is one request to the driver, made in the calling thread, and none of them waits
// for the GPU. Functions that concern a context act on the current one; a guest makes a context
// current, and the relaxed capture mode with it, for the length of a Visit (visit.hpp) and leaves
// both as they were. The driver interface has no last error, so that none can be left behind. Types
// of the driver stop here: handles are opaque pointers, and no CUDA header is needed to build.
//
// Errors: kCuda, the driver refused; kUnsupported, this driver or device has no such function;
// kInvalidUsage, see each function. Messages name the driver's function and its error. All
// functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace sabot::driver {

using Stream = void*;           // CUstream; null is the legacy stream of the current context
using Context = void*;          // CUcontext
using Module = void*;           // CUmodule
using Kernel = void*;           // CUfunction
using Graph = void*;            // CUgraph
using Address = std::uint64_t;  // CUdeviceptr

// What a thread may do while a stream is being captured; the values are the driver's.
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

// Whether work put on a stream becomes part of a graph instead of being executed.
struct Capture {
  enum class State : int { kNone = 0, kActive = 1, kInvalidated = 2 };  // the driver's values
  State state = State::kNone;
  Graph graph = nullptr;  // the graph captured into, while active
};

class Driver {
 public:
  virtual ~Driver() = default;

  // --- Contexts ---------------------------------------------------------------------------------
  // The primary context of a device, held from now on. kInvalidUsage where it is not active yet: a
  // guest never creates one.
  virtual Result<Context> primary_context(int device) = 0;
  // The context of a stream that is not null.
  virtual Result<Context> context_of(Stream stream) = 0;
  // Null where the thread has none.
  virtual Result<Context> current_context() = 0;
  virtual Status push(Context context) = 0;
  virtual Status pop() = 0;

  // --- Capture ----------------------------------------------------------------------------------
  // Sets the mode of this thread, returns the one it had.
  virtual Result<CaptureMode> exchange_capture_mode(CaptureMode mode) = 0;
  // kInvalidUsage for the legacy stream while a stream that waits for it is being captured.
  virtual Result<Capture> capture_of(Stream stream) = 0;
  // Calls end(user) once the graph, its copies and what was instantiated from it are destroyed and
  // have been executed; in a thread of the driver's, which must neither block nor call the driver.
  // Not after an error.
  virtual Status at_end_of(Graph graph, void (*end)(void*), void* user) = 0;

  // --- Memory -----------------------------------------------------------------------------------
  // Lets every GPU reach these pages of the host: the address in the current context. Idempotent.
  virtual Result<Address> map_host(void* pages, std::size_t bytes) = 0;
  virtual Status unmap_host(void* pages) = 0;

  // --- Work on a stream -------------------------------------------------------------------------
  // What is put on the stream later waits until the word at this address is value or more.
  // Both kUnsupported where the driver or the device lacks them: then neither exists.
  virtual Status wait_value(Stream stream, Address word, std::uint32_t value) = 0;
  // Writes the word once everything put on the stream before is complete.
  virtual Status write_value(Stream stream, Address word, std::uint32_t value) = 0;
  // Compiles PTX text into the current context.
  virtual Result<Module> load(const char* ptx) = 0;
  virtual Result<Kernel> kernel(Module module, const char* name) = 0;
  // One block of this many threads; the kernel's parameters are one struct, copied by the call.
  virtual Status launch(Kernel kernel, unsigned threads, Stream stream,
                        std::span<const std::byte> parameters) = 0;
  // A stream that waits for no other.
  virtual Result<Stream> create_stream() = 0;
  virtual Status destroy_stream(Stream stream) = 0;
};

}  // namespace sabot::driver
