// Data whose reductions are exact in every type, in every order, through every rounding on the way.
//
// Integers wrap, so their inputs are random bits. Floating inputs are small integers with a budget:
// the sum of magnitudes over all ranks stays within what the type counts without gaps (8 for e5m2),
// so no partial sum can round, whatever algorithm the subject uses. Products are signs and powers
// of two around one richer factor. Inputs depend on rank, index and seed through a hash, so an
// element that comes from the wrong rank or place is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "abi/api_list.hpp"

namespace sabot::conformance {

using Bits = std::uint64_t;  // one element, in the low bytes

// The reductions of a test: NCCL's five, and the one that applications create.
enum class Op { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };
inline constexpr Op kOps[] = {Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kAvg, Op::kPreMulSum};

inline constexpr int kTypeCount = 12;

std::size_t bytes_of(ncclDataType_t type);
bool is_floating(ncclDataType_t type);
std::string name_of(ncclDataType_t type);
std::string name_of(Op op);
// The value of a built-in; kPreMulSum has none.
ncclRedOp_t builtin(Op op);

// Random bits, for collectives that only move data.
Bits moved_bits(std::uint64_t seed, int rank, std::size_t index);

class ReductionPattern {
 public:
  ReductionPattern(ncclDataType_t type, Op op, int ranks, std::uint64_t seed);

  Bits input(int rank, std::size_t index) const;
  Bits expected(std::size_t index) const;
  // What this rank's kPreMulSum multiplies its input with.
  Bits scalar(int rank) const;

 private:
  std::int64_t number(int rank, std::size_t index) const;
  std::int64_t factor(int rank, std::size_t index) const;
  Bits share(int rank, std::size_t index) const;

  ncclDataType_t type_;
  Op op_;
  int ranks_;
  std::uint64_t seed_;
  int sharers_ = 1;           // ranks with a number other than zero, per index
  std::int64_t largest_ = 0;  // of the magnitudes of numbers
};

// Whether two elements are the same result: equal bits, or zeros of either sign in a floating type.
bool same(ncclDataType_t type, Bits a, Bits b);
// The bits in hexadecimal, as wide as the type.
std::string show(ncclDataType_t type, Bits bits);

}  // namespace sabot::conformance
