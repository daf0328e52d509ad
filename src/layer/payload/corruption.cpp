// Choosing places and values; reading and writing elements by their bits; scaling by the number
// formats' definition.
//
// scaled() is arithmetic on one element at a time, in the open, and not the engine's vector code: a
// fault changes a few elements, and the rule has to be short enough to be written down a second
// time as a kernel.
#include "layer/payload/corruption.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "layer/payload/extents.hpp"

namespace sabot::layer {
namespace {

using Place = CorruptionPlan::Place;
using scenario::CorruptKind;

constexpr std::uint64_t kFlipSalt = 0x666c6970;  // so that places and flipped bits are independent

constexpr bool is_integer(DataType type) { return type <= DataType::kUint64; }

constexpr std::uint64_t all_ones(DataType type) {
  return ~std::uint64_t{0} >> (64 - 8 * bytes_of(type));
}
// The quiet NaN that CUDA and our engine make: all bits but the sign. Integers have none.
constexpr std::uint64_t nan_of(DataType type) {
  return is_integer(type) ? all_ones(type) : all_ones(type) >> 1;
}

// Different elements below bound, ascending: Floyd's sampling, which needs one draw for each.
void draw_places(std::uint64_t bits, std::uint64_t bound, CorruptionPlan& plan) {
  Random random(bits);
  const auto begin = plan.places.begin();
  auto end = begin;
  for (std::uint64_t last = bound - plan.count; last < bound; ++last) {
    const std::uint64_t drawn = random.below(last + 1);
    const bool is_taken =
        std::any_of(begin, end, [drawn](const Place& place) { return place.element == drawn; });
    (end++)->element = is_taken ? last : drawn;
  }
  std::sort(begin, end, [](const Place& a, const Place& b) { return a.element < b.element; });
}

void set_masks(CorruptKind kind, std::uint64_t bits, DataType type, Place& place) {
  const std::uint64_t ones = all_ones(type);
  switch (kind) {
    case CorruptKind::kBitFlip: {
      Random random(mix(bits ^ kFlipSalt, place.element));
      place = {place.element, ones, std::uint64_t{1} << random.below(8 * bytes_of(type))};
      return;
    }
    case CorruptKind::kNan: place = {place.element, 0, nan_of(type)}; return;
    case CorruptKind::kZero: place = {place.element, 0, 0}; return;
    case CorruptKind::kStale:
    case CorruptKind::kScale: place = {place.element, ones, 0}; return;
  }
}

// The places whose old bits the caller wants to find again: input that the output does not cover.
std::uint64_t kept_input(const CorruptionPlan& plan, const abi::Call& call,
                         const Extents& extents) {
  const std::uint64_t size = bytes_of(plan.datatype);
  const auto first = reinterpret_cast<std::uintptr_t>(call.recv);
  const std::uint64_t bytes = call.recv == nullptr ? 0 : extents.output * size;
  std::uint64_t kept = 0;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(plan.buffer) + plan.places[i].element * size;
    const bool is_covered = at + size > first && at < first + bytes;
    kept |= is_covered ? 0 : std::uint64_t{1} << i;
  }
  return kept;
}

Error no_data(const abi::Call& call, bool is_input, bool is_null) {
  const std::string name = abi::info(call.function).public_name;
  const std::string side = is_input ? "input" : "output";
  if (is_null) return Error(Code::kInvalidArgument, name + ": the " + side + " buffer is NULL");
  if (call.count == 0)
    return Error(Code::kInvalidUsage, name + " moves 0 elements: there is nothing to corrupt");
  std::string text = name + " has no " + side + " on rank " + std::to_string(call.rank);
  if (call.root >= 0) text += ", root is " + std::to_string(call.root);
  return Error(Code::kInvalidUsage, std::move(text));
}

std::uint64_t load(const std::byte* at, std::size_t size) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, size);
  return bits;
}

// A float format of at most 16 bits: sign, exponent, mantissa.
struct ShortFloat {
  int exponent_bits;
  int mantissa_bits;
  std::uint32_t largest;   // code of the largest finite number
  std::uint32_t overflow;  // code of what is larger, once rounded
  std::uint32_t nan_from;  // codes from here on are NaNs; one less is infinity, unless largest

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int exponent_min() const { return 1 - bias(); }
  int sign_shift() const { return exponent_bits + mantissa_bits; }
};

constexpr ShortFloat format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {5, 10, 0x7bff, 0x7c00, 0x7c01};
    case DataType::kBfloat16: return {8, 7, 0x7f7f, 0x7f80, 0x7f81};
    case DataType::kFloat8e4m3: return {4, 3, 0x7e, 0x7e, 0x7f};
    default: return {5, 2, 0x7b, 0x7b, 0x7d};  // float8e5m2
  }
}

float decoded(const ShortFloat& format, std::uint32_t code) {
  const std::uint32_t magnitude = code & ((1U << format.sign_shift()) - 1);
  const float sign = (code >> format.sign_shift() & 1U) != 0 ? -1.0F : 1.0F;
  if (magnitude >= format.nan_from) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude > format.largest) return sign * std::numeric_limits<float>::infinity();
  const std::uint32_t field = magnitude >> format.mantissa_bits;
  const std::uint32_t fraction = magnitude & ((1U << format.mantissa_bits) - 1);
  const std::uint32_t significand = field == 0 ? fraction : fraction | 1U << format.mantissa_bits;
  const int exponent = format.exponent_min() + (field == 0 ? 0 : static_cast<int>(field) - 1);
  return sign * std::ldexp(static_cast<float>(significand), exponent - format.mantissa_bits);
}

std::uint32_t encoded(const ShortFloat& format, float value) {
  const std::uint32_t sign_bit = 1U << format.sign_shift();
  if (std::isnan(value)) return sign_bit - 1;
  const std::uint32_t sign = std::signbit(value) ? sign_bit : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.overflow;
  const int exponent = std::max(std::ilogb(magnitude), format.exponent_min());
  // In units of the last place; a carry out of the mantissa raises the exponent by itself.
  const double units = std::ldexp(static_cast<double>(magnitude), format.mantissa_bits - exponent);
  const double code =
      std::nearbyint(units) + std::ldexp(exponent - format.exponent_min(), format.mantissa_bits);
  const bool is_too_large = code > format.largest;
  return sign | (is_too_large ? format.overflow : static_cast<std::uint32_t>(code));
}

template <typename Integer>
std::uint64_t scaled_integer(std::uint64_t bits, double factor) {
  using Limits = std::numeric_limits<Integer>;
  const double value = std::nearbyint(static_cast<double>(static_cast<Integer>(bits)) * factor);
  const double above = std::ldexp(1.0, Limits::digits);  // one more than the largest
  Integer result = 0;
  if (value >= above) {
    result = Limits::max();
  } else if (value <= static_cast<double>(Limits::min())) {
    result = Limits::min();
  } else if (!std::isnan(value)) {
    result = static_cast<Integer>(value);
  }
  return static_cast<std::uint64_t>(result) & (~std::uint64_t{0} >> (64 - 8 * sizeof(Integer)));
}

}  // namespace

std::uint64_t scaled(DataType type, std::uint64_t bits, double factor) {
  switch (type) {
    case DataType::kInt8: return scaled_integer<std::int8_t>(bits, factor);
    case DataType::kUint8: return scaled_integer<std::uint8_t>(bits, factor);
    case DataType::kInt32: return scaled_integer<std::int32_t>(bits, factor);
    case DataType::kUint32: return scaled_integer<std::uint32_t>(bits, factor);
    case DataType::kInt64: return scaled_integer<std::int64_t>(bits, factor);
    case DataType::kUint64: return scaled_integer<std::uint64_t>(bits, factor);
    case DataType::kFloat64: {
      const double value = std::bit_cast<double>(bits) * factor;
      return std::isnan(value) ? nan_of(type) : std::bit_cast<std::uint64_t>(value);
    }
    case DataType::kFloat32: {
      const float value =
          std::bit_cast<float>(static_cast<std::uint32_t>(bits)) * static_cast<float>(factor);
      return std::isnan(value) ? nan_of(type) : std::bit_cast<std::uint32_t>(value);
    }
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2: {
      const ShortFloat format = format_of(type);
      const float value = decoded(format, static_cast<std::uint32_t>(bits));
      return encoded(format, value * static_cast<float>(factor));
    }
  }
  return bits;
}

Result<CorruptionPlan> corruption_of(const scenario::Act& act, std::uint64_t bits,
                                     const abi::Call& call) {
  const Extents extents = SABOT_TRY(extents_of(call));
  const bool is_stale = act.corrupt == CorruptKind::kStale;
  const bool is_input = act.moment == scenario::Moment::kBefore && !is_stale;
  const std::uint64_t elements = is_input ? extents.input : extents.output;
  CorruptionPlan plan;
  plan.buffer = is_input ? const_cast<void*>(call.send) : call.recv;
  if (elements == 0 || plan.buffer == nullptr) return no_data(call, is_input, elements != 0);

  using Operation = CorruptionPlan::Operation;
  plan.operation = act.corrupt == CorruptKind::kScale ? Operation::kScale : Operation::kMask;
  plan.datatype = static_cast<DataType>(call.datatype);
  plan.at_entry = is_input || is_stale;
  plan.factor = act.factor;
  plan.count = static_cast<std::uint32_t>(
      std::min({act.elements, elements, std::uint64_t{CorruptionPlan::kPlacesMax}}));
  draw_places(bits, elements, plan);
  for (std::uint32_t i = 0; i < plan.count; ++i)
    set_masks(act.corrupt, bits, plan.datatype, plan.places[i]);
  if (is_input) plan.kept = kept_input(plan, call, extents);
  if (is_stale) plan.kept = ~std::uint64_t{0} >> (64 - plan.count);
  return plan;
}

OldBits apply(const CorruptionPlan& plan) {
  const std::size_t size = bytes_of(plan.datatype);
  OldBits old;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    const Place& place = plan.places[i];
    std::byte* at = static_cast<std::byte*>(plan.buffer) + place.element * size;
    old.of[i] = load(at, size);
    const std::uint64_t now = plan.operation == CorruptionPlan::Operation::kScale
                                  ? scaled(plan.datatype, old.of[i], plan.factor)
                                  : (old.of[i] & place.mask) ^ place.flip;
    if (now != old.of[i]) std::memcpy(at, &now, size);
  }
  return old;
}

void restore(const CorruptionPlan& plan, const OldBits& old) {
  const std::size_t size = bytes_of(plan.datatype);
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    if ((plan.kept >> i & 1U) == 0) continue;
    std::byte* at = static_cast<std::byte*>(plan.buffer) + plan.places[i].element * size;
    std::memcpy(at, &old.of[i], size);
  }
}

}  // namespace sabot::layer
