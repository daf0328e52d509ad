// The reductions against a plain reference: scalar arithmetic, and rounding by searching the sorted
// list of all values that a format has. Every kernel table that this CPU can run gives the same
// bits.
#include "engine/host/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/random.hpp"

namespace sabot::host {
namespace {

using Bytes = std::vector<unsigned char>;
using Code = std::uint64_t;  // the bits of one element

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                             ReduceOp::kMin, ReduceOp::kAvg,  ReduceOp::kPreMulSum};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  bool saturates;  // rounding never gives infinity
};

bool is_float(DataType type) { return static_cast<int>(type) >= 6; }
bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
}

Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {5, 10, true, false};
    case DataType::kBfloat16: return {8, 7, true, false};
    case DataType::kFloat32: return {8, 23, true, false};
    case DataType::kFloat64: return {11, 52, true, false};
    case DataType::kFloat8e4m3: return {4, 3, false, true};
    default: return {5, 2, true, true};
  }
}

Code magnitude_bits(DataType type) { return ~Code{0} >> (65 - 8 * bytes_of(type)); }

double decode(DataType type, Code code) {
  const Format format = format_of(type);
  const Code magnitude = code & magnitude_bits(type);
  const double sign = (code > magnitude_bits(type)) ? -1 : 1;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int top = (1 << format.exponent_bits) - 1;
  const Code mantissa = magnitude & ((Code{1} << format.mantissa_bits) - 1);
  if (format.has_infinity && exponent == top) return mantissa ? std::nan("") : sign * INFINITY;
  if (!format.has_infinity && magnitude == magnitude_bits(type)) return std::nan("");
  const int bias = top / 2;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

// Rounds by looking for the two neighbours in the list of all finite values of a small format.
Code encode_small(DataType type, double value) {
  if (std::isnan(value)) return magnitude_bits(type);
  const Format format = format_of(type);
  const Code sign = std::signbit(value) ? magnitude_bits(type) + 1 : 0;
  const double magnitude = std::fabs(value);
  // Codes of non-negative numbers sort like the numbers, so the list need not be built.
  Code largest = magnitude_bits(type);
  while (!std::isfinite(decode(type, largest))) --largest;
  Code low = 0;
  Code high = largest + 1;  // the first value that is not finite, standing for infinity
  while (high - low > 1) {
    const Code middle = (low + high) / 2;
    (decode(type, middle) <= magnitude ? low : high) = middle;
  }
  const double below = decode(type, low);
  // Beyond the largest number the spacing goes on as if there were another one.
  const double spacing =
      low == largest ? below - decode(type, low - 1) : decode(type, high) - below;
  const double past = magnitude - below;
  if (past > spacing / 2 || (past == spacing / 2 && low % 2 == 1)) ++low;
  if (low > largest && format.saturates) low = largest;
  return low | sign;
}

Code encode(DataType type, double value) {
  Code code = 0;
  if (type == DataType::kFloat64) {
    if (std::isnan(value)) return magnitude_bits(type);
    std::memcpy(&code, &value, 8);
  } else if (type == DataType::kFloat32) {
    if (std::isnan(value)) return magnitude_bits(type);
    const float narrow = static_cast<float>(value);
    std::memcpy(&code, &narrow, 4);
  } else {
    code = encode_small(type, value);
  }
  return code;
}

Code read(DataType type, const unsigned char* at) {
  Code code = 0;
  std::memcpy(&code, at, bytes_of(type));
  return code;
}

bool is_before(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

double combine_floats(DataType type, ReduceOp op, double a, double b) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return is_before(a, b) == (op == ReduceOp::kMax) ? b : a;
  }
  if (type == DataType::kFloat64) return op == ReduceOp::kProd ? a * b : a + b;
  const float x = static_cast<float>(a);
  const float y = static_cast<float>(b);
  return op == ReduceOp::kProd ? x * y : x + y;
}

Code combine_integers(DataType type, ReduceOp op, Code a, Code b) {
  if (op == ReduceOp::kProd) return a * b;
  if (op != ReduceOp::kMax && op != ReduceOp::kMin) return a + b;
  // Shifted to the top, so that the sign of every width is the sign of int64.
  const int shift = static_cast<int>(64 - 8 * bytes_of(type));
  const bool less = is_signed(type) ? static_cast<std::int64_t>(a << shift) <
                                          static_cast<std::int64_t>(b << shift)
                                    : (a << shift) < (b << shift);
  return less == (op == ReduceOp::kMax) ? b : a;
}

Code expected(const Reduction& reduction, const std::vector<const unsigned char*>& sources,
              std::size_t index) {
  const DataType type = reduction.type;
  const std::size_t at = index * bytes_of(type);
  const bool divides = reduction.op == ReduceOp::kAvg && reduction.divisor != 1;
  if (sources.size() == 1 && !divides) return read(type, sources[0] + at);
  const Code mask = magnitude_bits(type) * 2 + 1;
  if (!is_float(type)) {
    Code total = read(type, sources[0] + at);
    for (std::size_t i = 1; i < sources.size(); ++i)
      total = combine_integers(type, reduction.op, total, read(type, sources[i] + at));
    if (!divides) return total & mask;
    const int shift = static_cast<int>(64 - 8 * bytes_of(type));
    if (!is_signed(type)) return (total & mask) / reduction.divisor;
    return static_cast<Code>((static_cast<std::int64_t>(total << shift) >> shift) /
                             std::int64_t{reduction.divisor}) &
           mask;
  }
  double total = decode(type, read(type, sources[0] + at));
  for (std::size_t i = 1; i < sources.size(); ++i)
    total = combine_floats(type, reduction.op, total, decode(type, read(type, sources[i] + at)));
  if (divides) {
    if (type == DataType::kFloat64)
      total = total / reduction.divisor;
    else
      total = static_cast<float>(total) / static_cast<float>(reduction.divisor);
  }
  return encode(type, total);
}

// Half of the elements are any bits at all, half are numbers whose sums stay in range.
Bytes input(DataType type, std::size_t count, std::uint64_t seed) {
  Bytes bytes(count * bytes_of(type));
  Random random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    Code code = random.next();
    if (is_float(type) && random.below(2) == 0)
      code = encode(type, static_cast<double>(random.below(64)) / 4 - 8);
    std::memcpy(bytes.data() + i * bytes_of(type), &code, bytes_of(type));
  }
  return bytes;
}

struct Inputs {
  Inputs(DataType type, std::size_t source_count, std::size_t count) {
    for (std::size_t i = 0; i < source_count; ++i) {
      bytes.push_back(input(type, count, 1000 * static_cast<std::uint64_t>(type) + i));
      raw.push_back(bytes.back().data());
    }
    sources.assign(raw.begin(), raw.end());
  }
  std::vector<Bytes> bytes;
  std::vector<const unsigned char*> raw;
  std::vector<const void*> sources;
};

std::string describe(const detail::KernelTable& kernels, const Reduction& reduction,
                     std::size_t source_count) {
  return std::string(kernels.name) + " " + std::string(name_of(reduction.type)) + " " +
         std::string(name_of(reduction.op)) + " of " + std::to_string(source_count);
}

void for_each_kernel(const std::function<void(const detail::KernelTable&, DataType)>& body) {
  for (const detail::KernelTable* kernels : detail::runnable_kernels())
    for (int type = 0; type < kDataTypeCount; ++type) body(*kernels, static_cast<DataType>(type));
}

Bytes expect_reduction(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
  const std::size_t width = bytes_of(reduction.type);
  Bytes result(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const Code code = expected(reduction, inputs.raw, i);
    std::memcpy(result.data() + i * width, &code, width);
  }
  return result;
}

TEST(Reduce, EveryTypeOpAndSourceCountMatchesTheReferenceForCountsUpTo67) {
  constexpr std::size_t kCountMax = 67;
  constexpr unsigned char kGuard = 0xa5;
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    for (const ReduceOp op : kOps) {
      for (std::size_t sources = 1; sources <= 8; ++sources) {
        const Reduction reduction{type, op, static_cast<std::uint32_t>(sources)};
        const Inputs inputs(type, sources, kCountMax);
        const Bytes wanted = expect_reduction(reduction, inputs, kCountMax);
        for (std::size_t count = 0; count <= kCountMax; ++count) {
          const std::size_t bytes = count * bytes_of(type);
          Bytes got(wanted.size() + 64, kGuard);
          detail::reduce_with(kernels, reduction, got.data(), inputs.sources, count);
          ASSERT_TRUE(
              std::equal(got.begin(), got.begin() + static_cast<long>(bytes), wanted.begin()))
              << describe(kernels, reduction, sources) << ", count " << count;
          ASSERT_EQ(std::count(got.begin() + static_cast<long>(bytes), got.end(), kGuard),
                    static_cast<long>(got.size() - bytes))
              << describe(kernels, reduction, sources) << " wrote past count " << count;
        }
      }
    }
  });
}

TEST(Reduce, LargeBuffersMatchTheReferenceWithCachedAndStreamingStores) {
  constexpr std::size_t kCount = 20011;
  for (int type = 0; type < kDataTypeCount; ++type) {
    const Inputs inputs(static_cast<DataType>(type), 3, kCount);
    for (const ReduceOp op : kOps) {
      Reduction reduction{static_cast<DataType>(type), op, 7};
      const Bytes wanted = expect_reduction(reduction, inputs, kCount);
      for (const detail::KernelTable* kernels : detail::runnable_kernels()) {
        for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
          reduction.stores = stores;
          Bytes got(wanted.size());
          detail::reduce_with(*kernels, reduction, got.data(), inputs.sources, kCount);
          ASSERT_EQ(got, wanted) << describe(*kernels, reduction, 3);
        }
      }
    }
  }
}

TEST(Reduce, PointersNeedNoAlignment) {
  constexpr std::size_t kCount = 301;
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    const Inputs inputs(type, 2, kCount);
    const std::size_t bytes = kCount * bytes_of(type);
    Reduction reduction{type, ReduceOp::kSum};
    const Bytes wanted = expect_reduction(reduction, inputs, kCount);
    for (std::size_t offset = 0; offset <= 65; ++offset) {
      Bytes shifted(bytes + 66);
      std::copy(inputs.bytes[1].begin(), inputs.bytes[1].end(),
                shifted.begin() + static_cast<long>(offset));
      const void* sources[] = {inputs.sources[0], shifted.data() + offset};
      for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
        reduction.stores = stores;
        Bytes got(bytes + 66);
        unsigned char* to = got.data() + (65 - offset);
        detail::reduce_with(kernels, reduction, to, sources, kCount);
        ASSERT_EQ(Bytes(to, to + bytes), wanted)
            << describe(kernels, reduction, 2) << " at offset " << offset;
      }
    }
  });
}

TEST(Reduce, TheDestinationMayBeAnyOfTheSources) {
  constexpr std::size_t kCount = 1003;
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    for (const ReduceOp op : kOps) {
      const Reduction reduction{type, op, 4};
      const Inputs inputs(type, 4, kCount);
      const Bytes wanted = expect_reduction(reduction, inputs, kCount);
      for (std::size_t alias = 0; alias < 4; ++alias) {
        std::vector<const void*> sources = inputs.sources;
        Bytes destination = inputs.bytes[alias];
        sources[alias] = destination.data();
        detail::reduce_with(kernels, reduction, destination.data(), sources, kCount);
        ASSERT_EQ(destination, wanted)
            << describe(kernels, reduction, 4) << " in place of " << alias;
      }
    }
  });
}

TEST(Reduce, TheResultDoesNotDependOnHowTheBufferIsCutIntoChunks) {
  constexpr std::size_t kCount = 2111;
  Random random(7);
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    for (const ReduceOp op : kOps) {
      const Reduction reduction{type, op, 5};
      const Inputs inputs(type, 5, kCount);
      Bytes whole(kCount * bytes_of(type));
      detail::reduce_with(kernels, reduction, whole.data(), inputs.sources, kCount);
      Bytes pieces(whole.size());
      for (std::size_t begin = 0; begin < kCount;) {
        const std::size_t count = std::min<std::size_t>(1 + random.below(150), kCount - begin);
        const std::size_t at = begin * bytes_of(type);
        std::vector<const void*> sources;
        for (const Bytes& source : inputs.bytes) sources.push_back(source.data() + at);
        detail::reduce_with(kernels, reduction, pieces.data() + at, sources, count);
        begin += count;
      }
      ASSERT_EQ(pieces, whole) << describe(kernels, reduction, 5);
    }
  });
}

// x + -0 is x, bit for bit, so that a sum with -0 shows what decoding and encoding do to each
// pattern.
TEST(Reduce, EveryPatternOfTheSmallFormatsSurvivesDecodingAndEncoding) {
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    if (!is_float(type) || bytes_of(type) > 2) return;
    const std::size_t width = bytes_of(type);
    const std::size_t patterns = std::size_t{1} << (8 * width);
    Bytes all(patterns * width);
    Bytes minus_zero(patterns * width);
    const Code zero = magnitude_bits(type) + 1;
    for (Code code = 0; code < patterns; ++code) {
      std::memcpy(all.data() + code * width, &code, width);
      std::memcpy(minus_zero.data() + code * width, &zero, width);
    }
    const void* sources[] = {all.data(), minus_zero.data()};
    Bytes got(patterns * width);
    detail::reduce_with(kernels, {type, ReduceOp::kSum}, got.data(), sources, patterns);
    for (Code code = 0; code < patterns; ++code) {
      const double value = decode(type, code);
      Code wanted = code;
      if (std::isnan(value)) wanted = magnitude_bits(type);
      if (std::isinf(value) && format_of(type).saturates) wanted = code - 1;
      ASSERT_EQ(read(type, got.data() + code * width), wanted)
          << kernels.name << " " << name_of(type) << " pattern " << code;
    }
  });
}

TEST(Reduce, EveryPairOfFloat8PatternsSumsMultipliesAndComparesLikeTheReference) {
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    if (type != DataType::kFloat8e4m3 && type != DataType::kFloat8e5m2) return;
    Inputs inputs(type, 2, 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      inputs.bytes[0][i] = static_cast<unsigned char>(i);
      inputs.bytes[1][i] = static_cast<unsigned char>(i >> 8);
    }
    for (const ReduceOp op : kOps) {
      const Reduction reduction{type, op, 3};
      Bytes got(65536);
      detail::reduce_with(kernels, reduction, got.data(), inputs.sources, 65536);
      ASSERT_EQ(got, expect_reduction(reduction, inputs, 65536)) << describe(kernels, reduction, 2);
    }
  });
}

template <typename Element>
std::vector<Element> reduced(DataType type, ReduceOp op,
                             const std::vector<std::vector<Element>>& sources,
                             std::uint32_t divisor = 1) {
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<Element> result(sources[0].size());
  reduce({type, op, divisor}, result.data(), pointers, result.size());
  return result;
}

TEST(Reduce, Float16AccumulatesInFloat32AndRoundsOnce) {
  // 2048 + 1 is a tie that float16 alone would round back to 2048, twice.
  EXPECT_EQ(
      reduced<std::uint16_t>(DataType::kFloat16, ReduceOp::kSum, {{0x6800}, {0x3c00}, {0x3c00}}),
      std::vector<std::uint16_t>{0x6801});
}

TEST(Reduce, SourcesAreAddedInTheOrderGiven) {
  EXPECT_EQ(reduced<float>(DataType::kFloat32, ReduceOp::kSum, {{1e30f}, {-1e30f}, {1.0f}}),
            std::vector<float>{1.0f});
  EXPECT_EQ(reduced<float>(DataType::kFloat32, ReduceOp::kSum, {{1.0f}, {1e30f}, {-1e30f}}),
            std::vector<float>{0.0f});
}

TEST(Reduce, IntegersWrapAndTheirAverageDividesTheWrappedSumTowardsZero) {
  EXPECT_EQ(reduced<std::int8_t>(DataType::kInt8, ReduceOp::kSum, {{100, -100}, {100, -100}}),
            (std::vector<std::int8_t>{-56, 56}));
  EXPECT_EQ(reduced<std::int32_t>(DataType::kInt32, ReduceOp::kAvg, {{-7, 7}, {0, 0}}, 2),
            (std::vector<std::int32_t>{-3, 3}));
  EXPECT_EQ(reduced<std::int8_t>(DataType::kInt8, ReduceOp::kAvg, {{100, -3}, {100, -2}}, 2),
            (std::vector<std::int8_t>{-28, -2}));
}

TEST(Reduce, Float8SaturatesAndFloat16OverflowsToInfinity) {
  EXPECT_EQ(reduced<std::uint8_t>(DataType::kFloat8e4m3, ReduceOp::kSum, {{0x7e}, {0x7e}}),
            std::vector<std::uint8_t>{0x7e});
  EXPECT_EQ(reduced<std::uint8_t>(DataType::kFloat8e5m2, ReduceOp::kProd, {{0x7b}, {0xfb}}),
            std::vector<std::uint8_t>{0xfb});
  EXPECT_EQ(reduced<std::uint16_t>(DataType::kFloat16, ReduceOp::kSum, {{0x7bff}, {0x7bff}}),
            std::vector<std::uint16_t>{0x7c00});
}

TEST(Reduce, SixtyFourSourcesAreOnePass) {
  const std::vector<std::vector<float>> sources(kReduceSourcesMax, std::vector<float>(37, 0.5f));
  EXPECT_EQ(reduced<float>(DataType::kFloat32, ReduceOp::kSum, sources),
            std::vector<float>(37, 32.0f));
}

TEST(Scale, RoundsTheProductWithTheScalarOnceInEveryType) {
  for_each_kernel([&](const detail::KernelTable& kernels, DataType type) {
    constexpr std::size_t kCount = 131;
    Inputs inputs(type, 2, kCount);
    const std::size_t width = bytes_of(type);
    for (std::size_t i = 1; i < kCount; ++i)
      std::memcpy(inputs.bytes[1].data() + i * width, inputs.bytes[1].data(), width);
    const Bytes wanted = expect_reduction({type, ReduceOp::kProd}, inputs, kCount);
    Bytes got = inputs.bytes[0];
    kernels.scale[static_cast<int>(type)](got.data(), got.data(), kCount, inputs.sources[1]);
    EXPECT_EQ(got, wanted) << kernels.name << " " << name_of(type);
  });
}

#if defined(__x86_64__)
// torch.set_flush_denormal sets these modes for the whole thread.
TEST(Reduce, Float16SubnormalsSurviveAThreadThatFlushesFloat32Subnormals) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
  for (const detail::KernelTable* kernels : detail::runnable_kernels()) {
    const std::uint16_t a[] = {0x0001, 0x8003, 0x03ff};
    const std::uint16_t b[] = {0x0001, 0x0001, 0x0001};
    const void* sources[] = {a, b};
    std::uint16_t got[3];
    detail::reduce_with(*kernels, {DataType::kFloat16, ReduceOp::kSum}, got, sources, 3);
    EXPECT_EQ(got[0], 0x0002) << kernels->name;
    EXPECT_EQ(got[1], 0x8002) << kernels->name;
    EXPECT_EQ(got[2], 0x0400) << kernels->name;
  }
  _mm_setcsr(saved);
}
#endif

}  // namespace
}  // namespace sabot::host
