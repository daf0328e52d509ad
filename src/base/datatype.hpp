// Element types and reductions, with the numeric values that NCCL gives them.
//
// The values are part of the ABI and of what ranks tell each other, so they never change. Engines
// and schedules must not know nccl.h; the ABI layer static_asserts that the values agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sabot {

enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDataTypeCount = 12;

// The reductions an engine executes. kPreMulSum multiplies this rank's input by a scalar first.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5
};
inline constexpr int kReduceOpCount = 6;

constexpr std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2: return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16: return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32: return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64: return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                         "int64",   "uint64",   "float16",    "float32",
                                         "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return kNames[static_cast<int>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return kNames[static_cast<int>(op)];
}

}  // namespace sabot
