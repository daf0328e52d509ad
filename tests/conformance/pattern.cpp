// The arithmetic of the crafted data: int64 for floating types, wrapping uint64 for integers.
#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "abi/names.hpp"
#include "base/random.hpp"

namespace sabot::conformance {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};

Format format_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return {5, 10};
    case ncclBfloat16: return {8, 7};
    case ncclFloat32: return {8, 23};
    case ncclFloat64: return {11, 52};
    case ncclFloat8e4m3: return {4, 3};
    default: return {5, 2};
  }
}

bool is_signed(ncclDataType_t type) {
  return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

Bits mask_of(ncclDataType_t type) { return ~Bits{0} >> (64 - 8 * bytes_of(type)); }

// The bits of an integer that the format holds exactly.
Bits encode(ncclDataType_t type, std::int64_t number) {
  if (!is_floating(type)) return static_cast<Bits>(number) & mask_of(type);
  if (number == 0) return 0;
  const Format format = format_of(type);
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(std::llabs(number)), &exponent);
  const double mantissa = std::ldexp(fraction * 2 - 1, format.mantissa_bits);
  const auto whole = static_cast<Bits>(mantissa);
  if (static_cast<double>(whole) != mantissa) {
    std::fprintf(stderr, "pattern: %lld is not exact in %s\n", static_cast<long long>(number),
                 name_of(type).c_str());
    std::abort();
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const Bits sign = number < 0 ? (mask_of(type) >> 1) + 1 : 0;
  return sign | (static_cast<Bits>(exponent - 1 + bias) << format.mantissa_bits) | whole;
}

std::int64_t sign_extended(ncclDataType_t type, Bits bits) {
  const int shift = static_cast<int>(64 - 8 * bytes_of(type));
  if (!is_signed(type)) return static_cast<std::int64_t>(bits & mask_of(type));
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

// The largest magnitude up to which every integer is exact; enough is enough at 2^24.
std::int64_t exact_max(ncclDataType_t type) {
  return std::int64_t{1} << std::min(format_of(type).mantissa_bits + 1, 24);
}

std::uint64_t hash(std::uint64_t seed, int rank, std::size_t index) {
  return mix(mix(seed, static_cast<std::uint64_t>(rank)), index);
}

// Uniform in [-largest, largest].
std::int64_t spread(std::uint64_t bits, std::int64_t largest) {
  const auto choices = 2 * static_cast<std::uint64_t>(largest) + 1;
  return static_cast<std::int64_t>(Random(bits).below(choices)) - largest;
}

// Of kPreMulSum; small enough for every floating type, large enough to make integers wrap.
std::int64_t scalar_number(ncclDataType_t type, int rank) {
  constexpr std::int64_t kFloating[] = {2, -1, 1};
  constexpr std::int64_t kInteger[] = {3, -1, 5};
  return (is_floating(type) ? kFloating : kInteger)[rank % 3];
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) { return abi::datatype_bytes(type); }
bool is_floating(ncclDataType_t type) { return type >= ncclFloat16; }
std::string name_of(ncclDataType_t type) { return std::string(abi::datatype_name(type)); }
std::string name_of(Op op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return kNames[static_cast<int>(op)];
}
ncclRedOp_t builtin(Op op) { return static_cast<ncclRedOp_t>(op); }

Bits moved_bits(std::uint64_t seed, int rank, std::size_t index) { return hash(seed, rank, index); }

ReductionPattern::ReductionPattern(ncclDataType_t type, Op op, int ranks, std::uint64_t seed)
    : type_(type), op_(op), ranks_(ranks), seed_(seed) {
  if (!is_floating(type)) return;
  std::int64_t budget = exact_max(type);
  if (op == Op::kMax || op == Op::kMin) budget *= ranks;  // nothing adds up
  if (op == Op::kPreMulSum) budget /= 2;                  // the largest scalar
  // An average starts from multiples of the number of ranks, whose odd part costs mantissa.
  if (op == Op::kAvg) budget /= ranks / (ranks & -ranks);
  sharers_ = static_cast<int>(std::min<std::int64_t>(ranks, budget));
  largest_ = std::max<std::int64_t>(1, budget / ranks);
}

// A factor of a floating product: one rank an index is rich, the others are ±1 and ±2.
std::int64_t ReductionPattern::factor(int rank, std::size_t index) const {
  const std::uint64_t bits = hash(seed_, rank, index);
  const std::int64_t sign = (bits & 1) != 0 ? -1 : 1;
  const auto rich = static_cast<int>(mix(seed_, index) % static_cast<std::uint64_t>(ranks_));
  if (rank != rich) return sign * ((bits & 2) != 0 ? 2 : 1);
  // Seven doublings on top must stay below the largest number: 448 for e4m3, 65504 for float16.
  const std::int64_t richest =
      type_ == ncclFloat8e4m3 ? 3 : std::min<std::int64_t>(exact_max(type_) - 1, 255);
  return sign * (1 + static_cast<std::int64_t>((bits >> 2) % static_cast<std::uint64_t>(richest)));
}

std::int64_t ReductionPattern::number(int rank, std::size_t index) const {
  if (!is_floating(type_)) return static_cast<std::int64_t>(hash(seed_, rank, index));
  if (op_ == Op::kProd) return factor(rank, index);
  const auto turn = (static_cast<std::size_t>(rank) + index) % static_cast<std::size_t>(ranks_);
  if (turn >= static_cast<std::size_t>(sharers_)) return 0;
  return spread(hash(seed_, rank, index), largest_);
}

Bits ReductionPattern::input(int rank, std::size_t index) const {
  const std::int64_t value = number(rank, index);
  return encode(type_, op_ == Op::kAvg && is_floating(type_) ? value * ranks_ : value);
}

Bits ReductionPattern::scalar(int rank) const { return encode(type_, scalar_number(type_, rank)); }

// What a rank contributes, after its scalar. Integers wrap, hence unsigned arithmetic throughout;
// floating numbers are far from where that matters.
Bits ReductionPattern::share(int rank, std::size_t index) const {
  const auto value = static_cast<Bits>(number(rank, index));
  if (op_ != Op::kPreMulSum) return value;
  return value * static_cast<Bits>(scalar_number(type_, rank));
}

Bits ReductionPattern::expected(std::size_t index) const {
  const auto ordered = [&](Bits bits) {
    return is_floating(type_) ? static_cast<std::int64_t>(bits) : sign_extended(type_, bits);
  };
  const auto before = [&](Bits a, Bits b) {
    // uint64 does not fit the signed comparison that serves every other type.
    return type_ == ncclUint64 ? a < b : ordered(a) < ordered(b);
  };
  Bits total = share(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const Bits value = share(rank, index);
    switch (op_) {
      case Op::kSum:
      case Op::kAvg:
      case Op::kPreMulSum: total += value; break;
      case Op::kProd: total *= value; break;
      case Op::kMax: total = before(total, value) ? value : total; break;
      case Op::kMin: total = before(value, total) ? value : total; break;
    }
  }
  if (op_ == Op::kAvg && !is_floating(type_)) {
    const Bits sum = total & mask_of(type_);
    if (!is_signed(type_)) return sum / static_cast<Bits>(ranks_);
    total = static_cast<Bits>(sign_extended(type_, sum) / ranks_);
  }
  return encode(type_, static_cast<std::int64_t>(total));
}

bool same(ncclDataType_t type, Bits a, Bits b) {
  if (a == b) return true;
  const Bits magnitude = mask_of(type) >> 1;
  return is_floating(type) && ((a | b) & magnitude) == 0;
}

std::string show(ncclDataType_t type, Bits bits) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * bytes_of(type)),
                static_cast<unsigned long long>(bits & mask_of(type)));
  return text;
}

}  // namespace sabot::conformance
