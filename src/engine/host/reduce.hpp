// Element-wise reductions over CPU memory: the arithmetic of every collective on the host engine.
//
// One pass: all sources are read once, combined in the order given, written once. Lanes never mix,
// so the result of an element depends on its inputs alone, never on chunk boundaries, alignment or
// the instruction set that the process happens to run on: all of these are bitwise the same.
//
// The rules, following NVIDIA's device code where a CPU can:
//   - float16, bfloat16 and both float8 accumulate in float32 and round once, to nearest even.
//   - float8 results beyond the largest finite value, infinities included, become that value: NCCL
//     converts with __NV_SATFINITE. float16 and bfloat16 overflow to infinity.
//   - A NaN result is always the positive NaN with all mantissa bits set, as GPUs produce it. Max
//     and min return the number where one side is NaN, NaN where all are; -0 is less than +0.
//   - Integers wrap; avg on them divides the wrapped sum, towards zero. avg on floating types
//     divides the accumulator before it is rounded (NCCL multiplies each input by a rounded 1/n
//     instead).
//   - One source without a divisor is a copy: bits pass untouched, NaNs and float8 infinities too,
//     as in a communicator of one rank.
// Pointers need no alignment. Who owns, orders or synchronises memory is the caller's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/datatype.hpp"

namespace sabot::host {

inline constexpr int kReduceSourcesMax = 64;

enum class Stores : std::uint8_t {
  kCached,     // the result is read again soon, or lies in cache already
  kStreaming,  // bypass the cache: saves reading each line of a destination larger than the cache
};

struct Reduction {
  DataType type = DataType::kFloat32;
  // kAvg is a sum divided by divisor; kPreMulSum a plain sum of inputs that scale() has prepared.
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 1;  // of kAvg: usually the number of ranks; ignored by the other ops
  Stores stores = Stores::kCached;
};

// destination[i] = sources[0][i] op sources[1][i] op …, for count elements. Precondition: 1 ≤
// sources.size() ≤ kReduceSourcesMax and divisor ≥ 1. The destination may be exactly one of the
// sources; any other overlap is undefined.
void reduce(const Reduction& reduction, void* destination, std::span<const void* const> sources,
            std::size_t count);

// destination[i] = source[i] × scalar, rounded to the type: the first half of PreMulSum, meant to
// be folded into the copy that publishes a rank's input. scalar points to one element of the type;
// destination may equal source.
void scale(DataType type, void* destination, const void* source, std::size_t count,
           const void* scalar);

// Which instruction set the kernels of this process use: "avx512", "avx2" or "baseline".
std::string_view reduce_instruction_set();

namespace detail {

using ReduceKernel = void (*)(void* destination, const void* const* sources, int source_count,
                              std::size_t count, std::uint32_t divisor, bool streaming);
using ScaleKernel = void (*)(void* destination, const void* source, std::size_t count,
                             const void* scalar);

// Sum (also avg and premulsum), prod, max, min: the columns of a kernel table.
inline constexpr int kKernelOpCount = 4;

struct KernelTable {
  const char* name;
  ReduceKernel reduce[kDataTypeCount][kKernelOpCount];
  ScaleKernel scale[kDataTypeCount];
};

extern const KernelTable kBaselineKernels;
// Null where this build has no such variant; whether the CPU can run it is for the caller to ask.
extern const KernelTable* const kAvx2Kernels;
extern const KernelTable* const kAvx512Kernels;

// The tables that this CPU can run, best first; tests compare them with each other.
std::span<const KernelTable* const> runnable_kernels();

void reduce_with(const KernelTable& kernels, const Reduction& reduction, void* destination,
                 std::span<const void* const> sources, std::size_t count);

}  // namespace detail

}  // namespace sabot::host
