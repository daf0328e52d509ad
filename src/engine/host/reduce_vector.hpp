// Number formats as vector code: how a vector of each element type becomes its accumulator and
// back.
//
// Written once with the compilers' vector extensions and compiled by each reduce_<isa>.cpp for its
// instruction set; everything sits in an unnamed namespace, so that the linker cannot merge code of
// one instruction set into another. Only conversions that an instruction does better are spelled
// out. The including file defines SABOT_REDUCE_TARGET (a target attribute or nothing) and
// SABOT_REDUCE_VECTOR_BYTES. Which loops run over these formats: reduce_kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/datatype.hpp"

// The vectors never cross a real call (everything is inlined), so their ABI does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

#define SABOT_INLINE SABOT_REDUCE_TARGET [[gnu::always_inline]] static inline

namespace sabot::host {
namespace {

template <typename Element, int kBytes>
struct VectorOf {
  typedef Element type __attribute__((vector_size(kBytes)));
};
template <typename Element, int kBytes>
using Vector = typename VectorOf<Element, kBytes>::type;

constexpr int kVectorBytes = SABOT_REDUCE_VECTOR_BYTES;
constexpr int kFloatLanes = kVectorBytes / 4;

using F32 = Vector<float, kVectorBytes>;
using I32 = Vector<std::int32_t, kVectorBytes>;
using U32 = Vector<std::uint32_t, kVectorBytes>;
using U16 = Vector<std::uint16_t, kVectorBytes / 2>;  // as many lanes as F32 has
using U8 = Vector<std::uint8_t, kVectorBytes / 4>;

// A vector from any address, and back: compiles to one unaligned move.
template <typename V>
SABOT_INLINE V load(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename V>
SABOT_INLINE void store(void* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename To, typename From>
SABOT_INLINE To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

// Bypasses the cache where the hardware has such a store for this size; `to` is aligned to it.
template <typename V>
SABOT_INLINE void store_streaming(void* to, V value) {
#if defined(__x86_64__)
#if SABOT_REDUCE_VECTOR_BYTES >= 64
  if constexpr (sizeof(V) == 64)
    return _mm512_stream_si512(static_cast<__m512i*>(to), bit_cast<__m512i>(value));
#endif
#if SABOT_REDUCE_VECTOR_BYTES >= 32
  if constexpr (sizeof(V) == 32)
    return _mm256_stream_si256(static_cast<__m256i*>(to), bit_cast<__m256i>(value));
#endif
  if constexpr (sizeof(V) == 16)
    return _mm_stream_si128(static_cast<__m128i*>(to), bit_cast<__m128i>(value));
#endif
  store(to, value);
}

// Orders streaming stores before whatever the caller publishes next.
SABOT_INLINE void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 64
// The unmasked forms of these intrinsics start from an undefined register, which GCC 11 to 13
// report as an uninitialised variable (GCC PR 105593); with all lanes kept the instruction is the
// same.
constexpr __mmask16 kAllLanes = 0xffff;
#endif

SABOT_INLINE U32 widen(U16 value) { return __builtin_convertvector(value, U32); }
SABOT_INLINE U32 widen(U8 value) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 64
  return bit_cast<U32>(_mm512_maskz_cvtepu8_epi32(kAllLanes, bit_cast<__m128i>(value)));
#elif defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 32
  std::int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bit_cast<U32>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bits)));
#else
  return __builtin_convertvector(value, U32);
#endif
}

// Keep the low bits of each lane.
SABOT_INLINE U16 narrow16(U32 value) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 64
  return bit_cast<U16>(_mm512_maskz_cvtepi32_epi16(kAllLanes, bit_cast<__m512i>(value)));
#elif defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 32
  const __m256i all = bit_cast<__m256i>(value & 0xffffu);
  return bit_cast<U16>(
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#else
  return __builtin_convertvector(value, U16);
#endif
}
SABOT_INLINE U8 narrow8(U32 value) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 64
  return bit_cast<U8>(_mm512_maskz_cvtepi32_epi8(kAllLanes, bit_cast<__m512i>(value)));
#elif defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 32
  const __m128i halves = bit_cast<__m128i>(narrow16(value & 0xffu));
  const std::int64_t bits = _mm_cvtsi128_si64(_mm_packus_epi16(halves, halves));
  return bit_cast<U8>(bits);
#else
  return __builtin_convertvector(value, U8);
#endif
}

constexpr std::uint32_t kNanF32 = 0x7fffffff;

// A float format of at most 16 bits: 1 sign, kExponent, kMantissa. kLargest is the code that
// overflow becomes, kSpecial the first code that is no finite number.
template <int kExponent, int kMantissa, std::uint32_t kLargest, std::uint32_t kSpecial>
struct SmallFloat {
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kMagnitude = (1u << (kExponent + kMantissa)) - 1;
  static constexpr bool kHasInfinity = kSpecial < kMagnitude;

  SABOT_INLINE F32 decode(U32 code) {
    const U32 magnitude = code & kMagnitude;
    const U32 sign = (code & (kMagnitude + 1)) << (31 - kExponent - kMantissa);
    const U32 normal = (magnitude << kShift) + (static_cast<std::uint32_t>(127 - kBias) << 23);
    // A subnormal is its mantissa as an integer times a power of two. No float32 subnormal appears,
    // so a process that flushes those to zero still gets ours right.
    const F32 tiny = __builtin_convertvector(bit_cast<I32>(magnitude), F32) * kSmallest();
    U32 bits = magnitude < (1u << kMantissa) ? bit_cast<U32>(tiny) : normal;
    if constexpr (kHasInfinity)
      bits = magnitude >= kSpecial ? (magnitude << kShift) | 0x7f800000u : bits;
    else
      bits = magnitude >= kSpecial ? kNanF32 + U32{} : bits;
    return bit_cast<F32>(bits | sign);
  }

  SABOT_INLINE U32 encode(F32 value) {
    const U32 bits = bit_cast<U32>(value);
    const U32 magnitude = bits & 0x7fffffffu;
    const U32 odd = (magnitude >> kShift) & 1u;
    // Round to nearest even by integer carry; a carry out of the mantissa raises the exponent.
    const U32 rounded = magnitude + odd + ((1u << (kShift - 1)) - 1);
    U32 code = (rounded >> kShift) - (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
    // Below the smallest normal: adding a number whose last mantissa bit weighs one smallest
    // subnormal lets the adder do the rounding.
    const F32 shifted = bit_cast<F32>(magnitude) + (F32{} + kSmallest() * 0x1.0p23f);
    const U32 tiny = bit_cast<U32>(shifted) - bit_cast<U32>(F32{} + kSmallest() * 0x1.0p23f);
    code = magnitude < (static_cast<std::uint32_t>(128 - kBias) << 23) ? tiny : code;
    code = code > kLargest ? kLargest + U32{} : code;
    const U32 sign = (bits >> (31 - kExponent - kMantissa)) & (kMagnitude + 1);
    return magnitude > 0x7f800000u ? kMagnitude + U32{} : code | sign;
  }

 private:
  SABOT_INLINE constexpr float kSmallest() {
    float value = 1;  // 2^(1 - bias - mantissa bits)
    for (int i = 0; i < kBias + kMantissa - 1; ++i) value /= 2;
    return value;
  }
};

using GenericFloat16 = SmallFloat<5, 10, 0x7c00, 0x7c00>;
using Float8e4m3 = SmallFloat<4, 3, 0x7e, 0x7f>;
using Float8e5m2 = SmallFloat<5, 2, 0x7b, 0x7c>;

struct Float16Format {
  using Stored = U16;
  SABOT_INLINE F32 decode(U16 code) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 64
    return bit_cast<F32>(_mm512_maskz_cvtph_ps(kAllLanes, bit_cast<__m256i>(code)));
#elif defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES == 32
    return bit_cast<F32>(_mm256_cvtph_ps(bit_cast<__m128i>(code)));
#else
    return GenericFloat16::decode(widen(code));
#endif
  }
  SABOT_INLINE U16 encode(F32 value) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES >= 32
    // The canonical NaN survives the instruction: it keeps the upper mantissa bits and the sign.
    const F32 plain = value != value ? bit_cast<F32>(U32{} + kNanF32) : value;
    constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if SABOT_REDUCE_VECTOR_BYTES == 64
    return bit_cast<U16>(_mm512_maskz_cvtps_ph(kAllLanes, bit_cast<__m512>(plain), kNearestEven));
#else
    return bit_cast<U16>(_mm256_cvtps_ph(bit_cast<__m256>(plain), kNearestEven));
#endif
#else
    return narrow16(GenericFloat16::encode(value));
#endif
  }
};

struct Bfloat16Format {
  using Stored = U16;
  SABOT_INLINE F32 decode(U16 code) { return bit_cast<F32>(widen(code) << 16); }
  SABOT_INLINE U16 encode(F32 value) {
    const U32 bits = bit_cast<U32>(value);
    const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return narrow16(value != value ? (kNanF32 >> 16) + U32{} : rounded);
  }
};

// Both float8 are short float16s, which x86 widens in hardware: e5m2 as it is, e4m3 with an
// exponent that is 8 too small. That halves the instructions of the generic way.
struct Float8e4m3Format {
  using Stored = U8;
  SABOT_INLINE F32 decode(U8 code) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES >= 32
    const U16 wide = __builtin_convertvector(code, U16);
    const U16 magnitude = wide & 0x7f;
    const U16 nan = magnitude == 0x7f ? U16{} + 0x7c00 : U16{};
    return Float16Format::decode((magnitude << 7) | ((wide & 0x80) << 8) | nan) * 256.0f;
#else
    return Float8e4m3::decode(widen(code));
#endif
  }
  SABOT_INLINE U8 encode(F32 value) { return narrow8(Float8e4m3::encode(value)); }
};

struct Float8e5m2Format {
  using Stored = U8;
  SABOT_INLINE F32 decode(U8 code) {
#if defined(__x86_64__) && SABOT_REDUCE_VECTOR_BYTES >= 32
    return Float16Format::decode(__builtin_convertvector(code, U16) << 8);
#else
    return Float8e5m2::decode(widen(code));
#endif
  }
  SABOT_INLINE U8 encode(F32 value) { return narrow8(Float8e5m2::encode(value)); }
};

struct Float32Format {
  using Stored = F32;
  SABOT_INLINE F32 decode(F32 value) { return value; }
  SABOT_INLINE F32 encode(F32 value) {
    return value != value ? bit_cast<F32>(U32{} + kNanF32) : value;
  }
};

struct Float64Format {
  using Stored = Vector<double, kVectorBytes>;
  SABOT_INLINE Stored decode(Stored value) { return value; }
  SABOT_INLINE Stored encode(Stored value) {
    using Bits = Vector<std::uint64_t, kVectorBytes>;
    return value != value ? bit_cast<Stored>(Bits{} + 0x7fffffffffffffffu) : value;
  }
};

}  // namespace
}  // namespace sabot::host
