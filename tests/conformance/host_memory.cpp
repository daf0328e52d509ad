// Ordinary memory, and the streams that the subject itself offers for it (include/sabot/stream.h).
//
// Without those functions only the null stream exists; then a collective has run when its call or
// its group has returned, and the tests of streams say that they cannot run.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "memory.hpp"

namespace sabot::conformance {
namespace {

// The worlds on one machine that a test run can afford; nothing else limits ranks on host memory.
constexpr int kRanksMax = 8;
constexpr std::size_t kAlignment = 64;

class HostMemory final : public Memory {
 public:
  explicit HostMemory(void* library) {
    const auto find = [library](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find("sabot_stream_create", create_);
    find("sabot_stream_destroy", destroy_);
    find("sabot_stream_synchronize", synchronize_);
  }

  int device_count() const override { return kRanksMax; }
  void use_device(int) override {}

  void* allocate(std::size_t bytes) override {
    return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  void release(void* pointer) override { std::free(pointer); }

  void write(void* to, const void* from, std::size_t bytes, Stream stream) override {
    synchronize(stream);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes, Stream stream) override {
    synchronize(stream);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  Stream create_stream() override {
    Stream stream = nullptr;
    if (create_ != nullptr && create_(&stream) != ncclSuccess) return nullptr;
    return stream;
  }
  void destroy_stream(Stream stream) override {
    if (stream != nullptr) destroy_(stream);
  }
  std::string synchronize(Stream stream) override {
    if (stream == nullptr) return "";
    const ncclResult_t result = synchronize_(stream);
    return result == ncclSuccess ? "" : "stream error " + std::to_string(result);
  }

 private:
  ncclResult_t (*create_)(Stream*) = nullptr;
  ncclResult_t (*destroy_)(Stream) = nullptr;
  ncclResult_t (*synchronize_)(Stream) = nullptr;
};

}  // namespace

std::unique_ptr<Memory> make_host_memory(void* library) {
  return std::make_unique<HostMemory>(library);
}

}  // namespace sabot::conformance
