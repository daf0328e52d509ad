// The reductions for whatever the compiler targets by default: SSE2 on x86-64, NEON on aarch64.
//
// Every machine can run these, so they are also the reference that the other tables must match bit
// for bit.
#define SABOT_REDUCE_TARGET
#define SABOT_REDUCE_VECTOR_BYTES 16
#include "engine/host/reduce_kernels.hpp"

namespace sabot::host::detail {

constexpr KernelTable kBaselineKernels = make_kernel_table("baseline");

}  // namespace sabot::host::detail
