// The host engine as an API table: all of NCCL on CPU memory.
//
// The table may be called from any thread, before and after a fork. Its context lives as long as
// the process. The Call argument of the slots is not needed and may be null. Buffers are host
// pointers; a device pointer cannot be told from one and makes the program fault when it is
// touched.
#pragma once

#include "abi/api_table.hpp"
#include "comm/options.hpp"

namespace sabot::comm {

// Nothing is allocated for the process, and no thread started, before a slot is called.
abi::Api host_api(const Options& options);

}  // namespace sabot::comm
