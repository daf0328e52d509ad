// Whether the machine has a CUDA device, asked in a process of its own.
//
// Asking starts the driver, which takes file descriptors, threads and sometimes seconds, and must
// not happen in the launcher: it stays free of CUDA, and a driver that hangs or crashes is an
// answer too. How a driver is asked is the caller's (driver::count_devices in the product).
#pragma once

#include "base/result.hpp"

namespace sabot::launch {

using CountDevices = Result<int> (*)();

// The number of devices, at least 1, or why there is none. Blocks at most timeout_ms.
Result<int> probe_devices(CountDevices count, int timeout_ms = 30'000);

}  // namespace sabot::launch
