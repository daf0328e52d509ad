// Whether this machine has a CUDA driver with a device, asked of the driver itself, opened at run
// time.
//
// The answer decides between the engines (docs/concepts.md). cuInit starts the driver in the
// calling process, so that a launcher asks in a child and a library only once the application
// itself uses NCCL.
#pragma once

#include "base/result.hpp"

namespace sabot::driver {

// Number of devices, at least 1. kNotFound: no driver library or no device; kCuda: the driver
// refuses. The message is a clause: "no CUDA driver (libcuda.so.1: cannot open …)".
Result<int> count_devices(const char* library = "libcuda.so.1");

}  // namespace sabot::driver
