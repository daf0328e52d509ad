// A CUDA driver that exists only in memory: streams are queues of tasks, time is what a test says,
// memory of a GPU is memory of the process.
//
// It has the rules that a guest can break, and breaks with them as the real one does: hardware
// queues are fewer than streams, so that a stream which waits can stop another one; work put on a
// stream that is captured goes into a graph, and is done at each replay; loading and mapping
// destroy a capture unless this thread has the relaxed mode; kernels and streams belong to a
// context; host memory is reached only by the address it was mapped at. Any function can be told to
// fail. Nothing runs by itself: run() does what can be done. Kernels of kernels.hpp are executed by
// fake_kernels.hpp. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "driver/driver.hpp"
#include "driver/fake_kernels.hpp"

namespace sabot::driver {

class FakeDriver final : public Driver {
 public:
  struct Options {
    int device_count = 1;
    std::size_t queue_count = 8;
    bool has_memory_operations = true;
    // kScale of an element that has more than one byte: (type, bits, factor).
    std::function<std::uint64_t(std::uint32_t, std::uint64_t, double)> scale;
  };
  FakeDriver() : FakeDriver(Options{}) {}
  explicit FakeDriver(Options options);
  ~FakeDriver() override;

  // --- What an application does -----------------------------------------------------------------
  Context activate(int device);  // its primary context; not made current
  Stream make_stream(Context context, bool is_blocking = false);
  void put(Stream stream, std::function<void()> work);  // work of the application's
  void begin_capture(Stream stream, CaptureMode mode = CaptureMode::kGlobal);
  Graph end_capture(Stream stream);  // null: the capture was invalidated
  void replay(Graph graph, Stream stream);
  void destroy(Graph graph);

  // --- The machine ------------------------------------------------------------------------------
  // Everything that can be done now, in the order of the hardware queues.
  void run();
  void advance(std::uint64_t ns);  // then run()
  bool is_idle(Stream stream) const;
  // The n-th next call of this function of the seam, by name, returns an error; n from 1.
  void fail(const std::string& function, Code code, int nth = 1);

  // --- What a guest must leave alone, and what it may not do ------------------------------------
  std::size_t context_depth() const;  // of this thread
  CaptureMode capture_mode() const;   // of this thread
  std::size_t illegal_count() const;  // accesses to memory that is not mapped
  std::size_t stream_count() const;
  std::size_t load_count() const;

  Result<Context> primary_context(int device) override;
  Result<Context> context_of(Stream stream) override;
  Result<Context> current_context() override;
  Status push(Context context) override;
  Status pop() override;
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override;
  Result<Capture> capture_of(Stream stream) override;
  Status at_end_of(Graph graph, void (*end)(void*), void* user) override;
  Result<Address> map_host(void* pages, std::size_t bytes) override;
  Status unmap_host(void* pages) override;
  Status wait_value(Stream stream, Address word, std::uint32_t value) override;
  Status write_value(Stream stream, Address word, std::uint32_t value) override;
  Result<Module> load(const char* ptx) override;
  Result<Kernel> kernel(Module module, const char* name) override;
  Status launch(Kernel kernel, unsigned threads, Stream stream,
                std::span<const std::byte> parameters) override;
  Result<Stream> create_stream() override;
  Status destroy_stream(Stream stream) override;

 private:
  // Done, or to be asked again later. The first argument is the time of the GPU.
  using Step = std::function<bool(std::uint64_t now_ns)>;
  using Work = std::function<Step()>;  // makes the step anew: a graph is replayed
  struct FakeContext {
    int device = 0;
    std::map<const std::byte*, std::size_t> mapped;
  };
  struct FakeGraph {
    std::vector<Work> nodes;
    std::vector<std::pair<void (*)(void*), void*>> ends;
  };
  struct FakeStream {
    FakeContext* context = nullptr;
    bool is_blocking = false;
    bool is_destroyed = false;
    std::size_t queue = 0;
    Capture::State capture = Capture::State::kNone;
    CaptureMode mode = CaptureMode::kGlobal;
    std::thread::id captured_by;
    std::unique_ptr<FakeGraph> graph;
  };
  struct FakeModule {
    FakeContext* context;
    std::string ptx;
  };
  struct FakeKernel {
    FakeContext* context;
    bool is_spin;
  };
  struct Task {
    const FakeStream* stream;
    Step step;
  };
  struct ThreadState {
    std::vector<FakeContext*> contexts;
    CaptureMode mode = CaptureMode::kGlobal;
  };

  Status enter(const char* function);
  ThreadState& here() const { return threads_[std::this_thread::get_id()]; }
  FakeContext* current() const;
  FakeStream* find(Stream stream);
  Status put_work(Stream stream, Work work);
  Status refuse_in_capture(const char* function);
  FakeStream* add_stream(FakeContext* context, bool is_blocking);
  void run_locked();
  Reach reach_of(FakeContext* context);

  const Options options_;
  mutable std::mutex mutex_;
  mutable std::map<std::thread::id, ThreadState> threads_;
  std::vector<std::unique_ptr<FakeContext>> contexts_;  // by device, null: not active
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::map<FakeContext*, FakeStream*> legacy_;
  std::vector<std::unique_ptr<FakeModule>> modules_;
  std::vector<std::unique_ptr<FakeKernel>> kernels_;
  std::vector<std::unique_ptr<FakeGraph>> graphs_;
  std::vector<std::deque<Task>> queues_;
  std::map<std::string, std::pair<int, Code>> failures_;  // calls until then
  std::uint64_t now_ns_ = 0;
  std::size_t next_queue_ = 0;
  std::size_t illegal_count_ = 0;
  std::size_t load_count_ = 0;
};

}  // namespace sabot::driver
