// dlopen, cuInit, cuDeviceGetCount; the library stays open, as the driver does not survive being
// closed.
#include "driver/probe.hpp"

#include <dlfcn.h>

#include <string>

namespace sabot::driver {

Result<int> count_devices(const char* library) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error(Code::kNotFound, std::string("no CUDA driver (") + (why ? why : library) + ")");
  }
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(::dlsym(handle, "cuInit"));
  const auto count = reinterpret_cast<Count>(::dlsym(handle, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr)
    return Error(Code::kCuda, std::string(library) + " is no CUDA driver: cuInit is missing");
  if (const int result = init(0); result != 0)
    return Error(Code::kCuda,
                 "the CUDA driver does not start (cuInit returned " + std::to_string(result) + ")");
  int devices = 0;
  if (const int result = count(&devices); result != 0)
    return Error(Code::kCuda, "the CUDA driver does not count its devices (error " +
                                  std::to_string(result) + ")");
  if (devices == 0) return Error(Code::kNotFound, "the CUDA driver has no device");
  return devices;
}

}  // namespace sabot::driver
