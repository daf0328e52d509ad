// Picks the kernel table for this CPU, once, and forwards to it.
//
// The choice is an explicit table at first use rather than an ifunc: the resolver of an ifunc runs
// while the dynamic loader is still relocating, which a library preloaded into foreign processes
// must not do.
#include "engine/host/reduce.hpp"

#include <array>
#include <cstring>

#include "base/check.hpp"

namespace sabot::host {

namespace detail {
namespace {

struct Runnable {
  std::array<const KernelTable*, 3> tables{};
  std::size_t count = 0;
};

Runnable find_runnable() {
  Runnable found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // GCC's and clang's "supports" include the operating system's consent to save the registers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (kAvx512Kernels != nullptr && has_avx512) found.tables[found.count++] = kAvx512Kernels;
  if (kAvx2Kernels != nullptr && has_avx2) found.tables[found.count++] = kAvx2Kernels;
#endif
  found.tables[found.count++] = &kBaselineKernels;
  return found;
}

const Runnable& runnable() {
  static const Runnable kFound = find_runnable();
  return kFound;
}

int column_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd: return 1;
    case ReduceOp::kMax: return 2;
    case ReduceOp::kMin: return 3;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: break;
  }
  return 0;
}

}  // namespace

std::span<const KernelTable* const> runnable_kernels() {
  const Runnable& found = runnable();
  return {found.tables.data(), found.count};
}

void reduce_with(const KernelTable& kernels, const Reduction& reduction, void* destination,
                 std::span<const void* const> sources, std::size_t count) {
  SABOT_DCHECK(!sources.empty() && sources.size() <= kReduceSourcesMax && reduction.divisor > 0);
  if (count == 0) return;
  const std::uint32_t divisor = reduction.op == ReduceOp::kAvg ? reduction.divisor : 1;
  if (sources.size() == 1 && divisor == 1) {
    if (destination != sources[0])
      std::memcpy(destination, sources[0], count * bytes_of(reduction.type));
    return;
  }
  kernels.reduce[static_cast<int>(reduction.type)][column_of(reduction.op)](
      destination, sources.data(), static_cast<int>(sources.size()), count, divisor,
      reduction.stores == Stores::kStreaming);
}

}  // namespace detail

void reduce(const Reduction& reduction, void* destination, std::span<const void* const> sources,
            std::size_t count) {
  detail::reduce_with(*detail::runnable_kernels().front(), reduction, destination, sources, count);
}

void scale(DataType type, void* destination, const void* source, std::size_t count,
           const void* scalar) {
  detail::runnable_kernels().front()->scale[static_cast<int>(type)](destination, source, count,
                                                                    scalar);
}

std::string_view reduce_instruction_set() { return detail::runnable_kernels().front()->name; }

}  // namespace sabot::host
