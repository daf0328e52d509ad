// How long operations would take: a model for ncclGroupSimulateEnd, not a promise.
//
// Every operation costs a latency and its bytes at a bandwidth; the numbers are those of a 2-core
// virtual machine (0.5 µs a wait, 6 GB/s through shared memory), so that sizes compare sensibly.
#pragma once

#include "comm/launch.hpp"

namespace sabot::comm {

// Microseconds for the operations of a batch, one after the other.
float estimate_us(Batch& batch);

}  // namespace sabot::comm
