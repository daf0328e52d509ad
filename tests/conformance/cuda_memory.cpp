// GPU memory through the CUDA driver, found at run time under the names that its ABI gives
// functions.
//
// A driver error here means that the test cannot be judged, so it is a gtest failure and the values
// that follow do not matter. All device memory is taken before the first NCCL call and handed out
// from there: an allocation may wait for every GPU of the process to be idle, while the kernel of
// another rank spins until the allocating rank joins it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <vector>

#include "memory.hpp"

namespace sabot::conformance {
namespace {

using Handle = void*;
using Pointer = unsigned long long;

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*retain_primary)(Handle*, int) = nullptr;
  int (*set_current)(Handle) = nullptr;
  int (*allocate)(Pointer*, std::size_t) = nullptr;
  int (*to_device)(Pointer, const void*, std::size_t, Stream) = nullptr;
  int (*to_host)(void*, Pointer, std::size_t, Stream) = nullptr;
  int (*stream_create)(Stream*, unsigned) = nullptr;
  int (*stream_destroy)(Stream) = nullptr;
  int (*stream_synchronize)(Stream) = nullptr;
  int (*begin_capture)(Stream, int) = nullptr;
  int (*end_capture)(Stream, Handle*) = nullptr;
  int (*instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  int (*launch)(Handle, Stream) = nullptr;
  int (*destroy_graph)(Handle) = nullptr;
  int (*destroy_executable)(Handle) = nullptr;
  int (*error_text)(int, const char**) = nullptr;
};

constexpr unsigned kNonBlockingStream = 1;
constexpr int kCaptureThreadLocal = 1;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    return Error(Code::kCuda, "GPU memory needs libcuda.so.1, which cannot be opened: " +
                                  std::string(dlerror()));
  Driver d;
  const bool complete = find(library, "cuInit", d.init) &&
                        find(library, "cuDeviceGetCount", d.device_count) &&
                        find(library, "cuDeviceGet", d.device_get) &&
                        find(library, "cuDevicePrimaryCtxRetain", d.retain_primary) &&
                        find(library, "cuCtxSetCurrent", d.set_current) &&
                        find(library, "cuMemAlloc_v2", d.allocate) &&
                        find(library, "cuMemcpyHtoDAsync_v2", d.to_device) &&
                        find(library, "cuMemcpyDtoHAsync_v2", d.to_host) &&
                        find(library, "cuStreamCreate", d.stream_create) &&
                        find(library, "cuStreamDestroy_v2", d.stream_destroy) &&
                        find(library, "cuStreamSynchronize", d.stream_synchronize) &&
                        find(library, "cuStreamBeginCapture_v2", d.begin_capture) &&
                        find(library, "cuStreamEndCapture", d.end_capture) &&
                        find(library, "cuGraphInstantiateWithFlags", d.instantiate) &&
                        find(library, "cuGraphLaunch", d.launch) &&
                        find(library, "cuGraphDestroy", d.destroy_graph) &&
                        find(library, "cuGraphExecDestroy", d.destroy_executable) &&
                        find(library, "cuGetErrorString", d.error_text);
  if (!complete) return Error(Code::kCuda, "libcuda.so.1 is too old: a function is missing");
  return d;
}

// The memory of one device, handed out first fit.
class Arena {
 public:
  static constexpr std::size_t kBytes = std::size_t{512} << 20;
  static constexpr std::size_t kAlignment = 256;

  void begin(Pointer base) { free_[base] = kBytes; }

  Pointer take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t wanted = (bytes + kAlignment) / kAlignment * kAlignment;
    for (const auto& [at, size] : free_) {
      if (size < wanted) continue;
      const Pointer pointer = at;
      const std::size_t rest = size - wanted;
      free_.erase(at);
      if (rest > 0) free_[pointer + wanted] = rest;
      used_[pointer] = wanted;
      return pointer;
    }
    return 0;
  }

  // Whether the pointer came from here.
  bool give_back(Pointer pointer) {
    const std::lock_guard lock(mutex_);
    const auto taken = used_.find(pointer);
    if (taken == used_.end()) return false;
    auto block = free_.emplace(pointer, taken->second).first;
    used_.erase(taken);
    if (const auto next = std::next(block);
        next != free_.end() && block->first + block->second == next->first) {
      block->second += next->second;
      free_.erase(next);
    }
    if (block != free_.begin()) {
      const auto before = std::prev(block);
      if (before->first + before->second == block->first) {
        before->second += block->second;
        free_.erase(block);
      }
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<Pointer, std::size_t> free_;
  std::map<Pointer, std::size_t> used_;
};

struct Device {
  Handle context = nullptr;
  Arena arena;
};

thread_local Device* bound = nullptr;  // of this thread, by use_device

class CudaMemory final : public Memory {
 public:
  CudaMemory(const Driver& driver, int devices)
      : driver_(driver), devices_(static_cast<std::size_t>(devices)) {
    for (int i = 0; i < devices; ++i) {
      Device& device = devices_[static_cast<std::size_t>(i)];
      int id = 0;
      Pointer base = 0;
      check(driver_.device_get(&id, i), "cuDeviceGet");
      check(driver_.retain_primary(&device.context, id), "cuDevicePrimaryCtxRetain");
      check(driver_.set_current(device.context), "cuCtxSetCurrent");
      check(driver_.allocate(&base, Arena::kBytes), "cuMemAlloc");
      device.arena.begin(base);
    }
  }

  int device_count() const override { return static_cast<int>(devices_.size()); }

  void use_device(int device) override {
    bound = &devices_[static_cast<std::size_t>(device)];
    check(driver_.set_current(bound->context), "cuCtxSetCurrent");
  }

  void* allocate(std::size_t bytes) override {
    const Pointer pointer = bound->arena.take(bytes);
    EXPECT_NE(pointer, 0u) << "the tests need more than their " << Arena::kBytes << " bytes";
    return reinterpret_cast<void*>(pointer);
  }
  void release(void* pointer) override {
    for (Device& device : devices_)
      if (device.arena.give_back(address(pointer))) return;
    ADD_FAILURE() << pointer << " was not allocated here";
  }

  void write(void* to, const void* from, std::size_t bytes, Stream stream) override {
    if (bytes > 0) check(driver_.to_device(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
    check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }
  void read(void* to, const void* from, std::size_t bytes, Stream stream) override {
    if (bytes > 0) check(driver_.to_host(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
    check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }

  Stream create_stream() override {
    Stream stream = nullptr;
    check(driver_.stream_create(&stream, kNonBlockingStream), "cuStreamCreate");
    return stream;
  }
  void destroy_stream(Stream stream) override {
    check(driver_.stream_destroy(stream), "cuStreamDestroy");
  }
  std::string synchronize(Stream stream) override {
    return text_of_error(driver_.stream_synchronize(stream));
  }

  bool has_graphs() const override { return true; }
  std::string begin_capture(Stream stream) override {
    return text_of_error(driver_.begin_capture(stream, kCaptureThreadLocal));
  }
  void* end_capture(Stream stream) override {
    Handle graph = nullptr;
    Handle executable = nullptr;
    check(driver_.end_capture(stream, &graph), "cuStreamEndCapture");
    if (graph == nullptr) return nullptr;
    check(driver_.instantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
    check(driver_.destroy_graph(graph), "cuGraphDestroy");
    return executable;
  }
  std::string launch(void* graph, Stream stream) override {
    return text_of_error(driver_.launch(graph, stream));
  }
  void destroy_graph(void* graph) override {
    check(driver_.destroy_executable(graph), "cuGraphExecDestroy");
  }

 private:
  static Pointer address(const void* pointer) { return reinterpret_cast<Pointer>(pointer); }

  std::string text_of_error(int error) const {
    if (error == 0) return "";
    const char* text = nullptr;
    driver_.error_text(error, &text);
    return "CUDA error " + std::to_string(error) + ": " + (text != nullptr ? text : "unknown");
  }
  void check(int error, const char* function) const {
    EXPECT_EQ(text_of_error(error), "") << function;
  }

  Driver driver_;
  std::vector<Device> devices_;
};

}  // namespace

Result<std::unique_ptr<Memory>> make_cuda_memory() {
  const Driver driver = SABOT_TRY(open_driver());
  if (const int error = driver.init(0); error != 0)
    return Error(Code::kCuda, "cuInit failed with error " + std::to_string(error) +
                                  "; use --memory host or --memory none on a machine with no GPU");
  int devices = 0;
  if (driver.device_count(&devices) != 0 || devices == 0)
    return Error(Code::kCuda, "the CUDA driver counts no device");
  return std::unique_ptr<Memory>(std::make_unique<CudaMemory>(driver, devices));
}

}  // namespace sabot::conformance
