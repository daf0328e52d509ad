// The real form of the driver seam: libcuda, opened at run time.
//
// Each function is asked of cuGetProcAddress with the version of CUDA whose signature we declare
// (functions.def), so that a newer driver gives us the function we mean and not its successor;
// stream 0 is the legacy stream (B14). The library stays open, as the driver does not survive being
// closed. Needs no CUDA header and is linked to nothing.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "driver/driver.hpp"

namespace sabot::driver {

// The functions of functions.def; those that an old driver lacks are null.
struct CudaFunctions {
#define SABOT_CUDA_FUNCTION(name, version, parameters) int(*name) parameters = nullptr;
#define SABOT_CUDA_OPTIONAL(name, version, parameters) int(*name) parameters = nullptr;
#include "driver/functions.def"
#undef SABOT_CUDA_FUNCTION
#undef SABOT_CUDA_OPTIONAL
};

// Opens the library. kNotFound: there is none; kCuda: it is no driver, or one before CUDA 11.3.
Result<CudaFunctions> cuda_functions(const char* library = "libcuda.so.1");

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(const CudaFunctions& functions) : cuda_(functions) {}
  // With cuda_functions(). kCuda also where the driver does not start.
  static Result<std::unique_ptr<Driver>> open(const char* library = "libcuda.so.1");

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
  Status check(int result, const char* function) const;

  static constexpr std::size_t kDevicesMax = 64;

  const CudaFunctions cuda_;
  std::array<std::atomic<Context>, kDevicesMax> retained_{};
};

}  // namespace sabot::driver
