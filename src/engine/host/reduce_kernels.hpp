// The loops of the reductions and the table of one instruction set; included by reduce_<isa>.cpp.
//
// An operation says how a stored vector becomes an accumulator, how two accumulators combine and
// how the last one is stored; one loop serves them all. The tail runs the same vector code on a
// padded buffer, which is why no element's result can depend on where a chunk ends.
#pragma once

#include <type_traits>

#include "engine/host/reduce.hpp"
#include "engine/host/reduce_vector.hpp"

namespace sabot::host {
namespace {

// Sums and products of floating types: Accumulator is float32 or float64, see reduce_vector.hpp.
template <typename Format, bool kProduct>
struct FloatArithmetic {
  using Stored = typename Format::Stored;
  using Accumulator = decltype(Format::decode(Stored{}));
  SABOT_INLINE Accumulator take(Stored value) { return Format::decode(value); }
  SABOT_INLINE Accumulator combine(Accumulator a, Accumulator b) {
    if constexpr (kProduct)
      return a * b;
    else
      return a + b;
  }
  SABOT_INLINE Stored give(Accumulator value, std::uint32_t divisor) {
    using Lane = decltype(value[0] + value[0]);
    if (divisor != 1) value = value / (Accumulator{} + static_cast<Lane>(divisor));
    return Format::encode(value);
  }
};

// Integer division towards zero, which no instruction set has for vectors. Floating-point division
// is exact here: a quotient of integers that does not fit the mantissa is never near the next
// integer.
template <typename Integer>
struct IntegerQuotient {
  using Unsigned = std::make_unsigned_t<Integer>;
  using Stored = Vector<Unsigned, kVectorBytes>;

  SABOT_INLINE Stored of(Stored value, std::uint32_t divisor) {
    if constexpr (sizeof(Integer) == 1)
      return by_parts<U8>(value, static_cast<float>(divisor));
    else if constexpr (sizeof(Integer) == 4)
      return by_parts<Half>(value, double{1} * divisor);
    else
      return by_lanes(value, divisor);
  }

 private:
  using Half = Vector<std::int32_t, kVectorBytes / 2>;
  using F64 = Vector<double, kVectorBytes>;

  template <typename Part, typename Float>
  SABOT_INLINE Stored by_parts(Stored value, Float divisor) {
    for (std::size_t at = 0; at < sizeof value; at += sizeof(Part)) {
      char* const part = reinterpret_cast<char*>(&value) + at;
      store(part, quotient(load<Part>(part), divisor));
    }
    return value;
  }
  SABOT_INLINE U8 quotient(U8 value, float divisor) {
    I32 wide = bit_cast<I32>(widen(value));
    if constexpr (std::is_signed_v<Integer>) wide = (wide ^ 0x80) - 0x80;
    const F32 result = __builtin_convertvector(wide, F32) / (F32{} + divisor);
    return narrow8(bit_cast<U32>(__builtin_convertvector(result, I32)));
  }
  SABOT_INLINE Half quotient(Half value, double divisor) {
    constexpr std::int32_t kTop = -0x7fffffff - 1;
    F64 wide;
    if constexpr (std::is_signed_v<Integer>)
      wide = __builtin_convertvector(value, F64);
    else
      wide = __builtin_convertvector(value ^ kTop, F64) + 0x1p31;
    // The divisor is at least 2, so that unsigned quotients fit as well.
    return __builtin_convertvector(wide / (F64{} + divisor), Half);
  }
  SABOT_INLINE Stored by_lanes(Stored value, std::uint32_t divisor) {
    constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(Integer));
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto sum = static_cast<Integer>(value[lane]);
      value[lane] = static_cast<Unsigned>(sum / static_cast<Integer>(divisor));
    }
    return value;
  }
};

// Unsigned arithmetic serves signed types too, except where a sum is divided.
template <typename Integer, bool kProduct>
struct IntegerArithmetic {
  using Unsigned = std::make_unsigned_t<Integer>;
  using Stored = Vector<Unsigned, kVectorBytes>;
  using Accumulator = Stored;
  SABOT_INLINE Accumulator take(Stored value) { return value; }
  SABOT_INLINE Accumulator combine(Accumulator a, Accumulator b) {
    if constexpr (kProduct)
      return a * b;
    else
      return a + b;
  }
  SABOT_INLINE Stored give(Accumulator value, std::uint32_t divisor) {
    if (divisor == 1) return value;
    return IntegerQuotient<Integer>::of(value, divisor);
  }
};

template <typename Integer, bool kMax>
struct IntegerOrder {
  using Stored = Vector<Integer, kVectorBytes>;
  using Accumulator = Stored;
  SABOT_INLINE Accumulator take(Stored value) { return value; }
  SABOT_INLINE Accumulator combine(Accumulator a, Accumulator b) {
    if constexpr (kMax)
      return a > b ? a : b;
    else
      return a < b ? a : b;
  }
  SABOT_INLINE Stored give(Accumulator value, std::uint32_t) { return value; }
};

// Order of floats without floating point: flipping the lower bits of negative numbers makes the bit
// patterns compare like the numbers, -0 below +0. NaNs become the neutral element of the order,
// which by the same flip reads back as a NaN where nothing else turned up.
template <typename Signed, Signed kInfinity, bool kMax, bool kSaturates>
struct FloatOrder {
  using Stored = Vector<Signed, kVectorBytes>;
  using Accumulator = Stored;
  static constexpr Signed kMagnitude = static_cast<Signed>(std::make_unsigned_t<Signed>(-1) / 2);
  static constexpr Signed kNeutral = kMax ? static_cast<Signed>(-kMagnitude - 1) : kMagnitude;

  SABOT_INLINE Stored flip(Stored bits) { return bits ^ ((bits < 0) & kMagnitude); }
  SABOT_INLINE Accumulator take(Stored bits) {
    return (bits & kMagnitude) > kInfinity ? Stored{} + kNeutral : flip(bits);
  }
  SABOT_INLINE Accumulator combine(Accumulator a, Accumulator b) {
    return IntegerOrder<Signed, kMax>::combine(a, b);
  }
  SABOT_INLINE Stored give(Accumulator value, std::uint32_t) {
    Stored bits = flip(value);
    // One below infinity is the largest finite number; a comparison is -1 where it holds.
    if constexpr (kSaturates) bits = bits + ((bits & kMagnitude) == kInfinity);
    return value == kNeutral ? Stored{} + kMagnitude : bits;
  }
};

// Fewer bytes than a vector: the same arithmetic on a copy padded with zeros.
template <typename Operation>
SABOT_INLINE void reduce_part(char* destination, const void* const* sources, int source_count,
                              std::size_t offset, std::size_t part_bytes, std::uint32_t divisor) {
  typename Operation::Accumulator total{};
  for (int i = 0; i < source_count; ++i) {
    typename Operation::Stored padded{};
    std::memcpy(&padded, static_cast<const char*>(sources[i]) + offset, part_bytes);
    const auto taken = Operation::take(padded);
    total = i == 0 ? taken : Operation::combine(total, taken);
  }
  const auto result = Operation::give(total, divisor);
  std::memcpy(destination + offset, &result, part_bytes);
}

// kUnroll independent accumulators hide the latency of the arithmetic behind the loads.
template <typename Operation, int kUnroll, bool kStreaming>
SABOT_INLINE std::size_t reduce_blocks(char* destination, const void* const* sources,
                                       int source_count, std::size_t offset, std::size_t bytes,
                                       std::uint32_t divisor) {
  using Stored = typename Operation::Stored;
  constexpr std::size_t kStep = sizeof(Stored);
  constexpr std::size_t kBlock = kStep * kUnroll;
  for (; offset + kBlock <= bytes; offset += kBlock) {
    typename Operation::Accumulator total[kUnroll];
    const char* source = static_cast<const char*>(sources[0]) + offset;
    for (int k = 0; k < kUnroll; ++k)
      total[k] = Operation::take(load<Stored>(source + kStep * static_cast<unsigned>(k)));
    for (int i = 1; i < source_count; ++i) {
      source = static_cast<const char*>(sources[i]) + offset;
      for (int k = 0; k < kUnroll; ++k)
        total[k] = Operation::combine(
            total[k], Operation::take(load<Stored>(source + kStep * static_cast<unsigned>(k))));
    }
    for (int k = 0; k < kUnroll; ++k) {
      char* to = destination + offset + kStep * static_cast<unsigned>(k);
      if constexpr (kStreaming)
        store_streaming(to, Operation::give(total[k], divisor));
      else
        store(to, Operation::give(total[k], divisor));
    }
  }
  return offset;
}

template <typename Operation>
SABOT_REDUCE_TARGET void reduce_elements(void* destination, const void* const* sources,
                                         int source_count, std::size_t count, std::uint32_t divisor,
                                         bool streaming) {
  using Stored = typename Operation::Stored;
  constexpr std::size_t kElementBytes = sizeof(Stored{}[0]);
  constexpr int kUnroll = 4;
  char* const to = static_cast<char*>(destination);
  const std::size_t bytes = count * kElementBytes;
  std::size_t offset = 0;
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % sizeof(Stored);
  // A destination that is not even aligned to its elements never reaches a vector boundary.
  if (streaming && head % kElementBytes == 0 && head <= bytes) {
    if (head > 0) reduce_part<Operation>(to, sources, source_count, 0, head, divisor);
    offset =
        reduce_blocks<Operation, kUnroll, true>(to, sources, source_count, head, bytes, divisor);
    finish_streaming();
  } else {
    offset = reduce_blocks<Operation, kUnroll, false>(to, sources, source_count, 0, bytes, divisor);
  }
  offset = reduce_blocks<Operation, 1, false>(to, sources, source_count, offset, bytes, divisor);
  if (offset < bytes)
    reduce_part<Operation>(to, sources, source_count, offset, bytes - offset, divisor);
}

// Multiplies by a scalar, through the product operation so that both round alike.
template <typename Product>
SABOT_REDUCE_TARGET void scale_elements(void* destination, const void* source, std::size_t count,
                                        const void* scalar) {
  using Stored = typename Product::Stored;
  constexpr std::size_t kElementBytes = sizeof(Stored{}[0]);
  Stored repeated{};
  for (std::size_t lane = 0; lane < sizeof(Stored); lane += kElementBytes)
    std::memcpy(reinterpret_cast<char*>(&repeated) + lane, scalar, kElementBytes);
  const auto factor = Product::take(repeated);
  const std::size_t bytes = count * kElementBytes;
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(destination);
  std::size_t offset = 0;
  for (; offset + sizeof(Stored) <= bytes; offset += sizeof(Stored)) {
    const auto value = Product::take(load<Stored>(from + offset));
    store(to + offset, Product::give(Product::combine(value, factor), 1));
  }
  if (offset == bytes) return;  // an empty buffer may be null
  Stored padded{};
  std::memcpy(&padded, from + offset, bytes - offset);
  const auto result = Product::give(Product::combine(Product::take(padded), factor), 1);
  std::memcpy(to + offset, &result, bytes - offset);
}

template <typename Sum, typename Product, typename Max, typename Min>
constexpr void fill_row(detail::KernelTable& table, DataType type) {
  auto& row = table.reduce[static_cast<int>(type)];
  row[0] = reduce_elements<Sum>;
  row[1] = reduce_elements<Product>;
  row[2] = reduce_elements<Max>;
  row[3] = reduce_elements<Min>;
  table.scale[static_cast<int>(type)] = scale_elements<Product>;
}

template <typename Integer>
constexpr void fill_integer_row(detail::KernelTable& table, DataType type) {
  // Products do not see the sign: one kernel for both.
  fill_row<IntegerArithmetic<Integer, false>,
           IntegerArithmetic<std::make_unsigned_t<Integer>, true>, IntegerOrder<Integer, true>,
           IntegerOrder<Integer, false>>(table, type);
}

template <typename Format, typename Signed, Signed kInfinity, bool kSaturates>
constexpr void fill_float_row(detail::KernelTable& table, DataType type) {
  fill_row<FloatArithmetic<Format, false>, FloatArithmetic<Format, true>,
           FloatOrder<Signed, kInfinity, true, kSaturates>,
           FloatOrder<Signed, kInfinity, false, kSaturates>>(table, type);
}

constexpr detail::KernelTable make_kernel_table(const char* name) {
  detail::KernelTable table{};
  table.name = name;
  fill_integer_row<std::int8_t>(table, DataType::kInt8);
  fill_integer_row<std::uint8_t>(table, DataType::kUint8);
  fill_integer_row<std::int32_t>(table, DataType::kInt32);
  fill_integer_row<std::uint32_t>(table, DataType::kUint32);
  fill_integer_row<std::int64_t>(table, DataType::kInt64);
  fill_integer_row<std::uint64_t>(table, DataType::kUint64);
  fill_float_row<Float16Format, std::int16_t, 0x7c00, false>(table, DataType::kFloat16);
  fill_float_row<Bfloat16Format, std::int16_t, 0x7f80, false>(table, DataType::kBfloat16);
  fill_float_row<Float32Format, std::int32_t, 0x7f800000, false>(table, DataType::kFloat32);
  fill_float_row<Float64Format, std::int64_t, 0x7ff0000000000000, false>(table, DataType::kFloat64);
  // e4m3 has no infinity; 0x7e is its largest number, and everything above is NaN.
  fill_float_row<Float8e4m3Format, std::int8_t, 0x7e, false>(table, DataType::kFloat8e4m3);
  fill_float_row<Float8e5m2Format, std::int8_t, 0x7c, true>(table, DataType::kFloat8e5m2);
  return table;
}

}  // namespace
}  // namespace sabot::host
