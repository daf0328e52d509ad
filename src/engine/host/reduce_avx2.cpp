// The reductions compiled for AVX2, on x86-64; absent elsewhere.
//
// Nothing here runs before reduce.cpp has asked the CPU. FMA stays off: a fused product would round
// otherwise than the other tables.
#if defined(__x86_64__)

#define SABOT_REDUCE_TARGET [[gnu::target("avx2,f16c")]]
#define SABOT_REDUCE_VECTOR_BYTES 32
#include "engine/host/reduce_kernels.hpp"

namespace sabot::host::detail {
namespace {
constexpr KernelTable kTable = make_kernel_table("avx2");
}
const KernelTable* const kAvx2Kernels = &kTable;

}  // namespace sabot::host::detail

#else

#include "engine/host/reduce.hpp"

namespace sabot::host::detail {
const KernelTable* const kAvx2Kernels = nullptr;
}  // namespace sabot::host::detail

#endif
