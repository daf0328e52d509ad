// Names and properties of NCCL functions, results, types and reductions, from the API spec.
//
// Names are accepted with and without the nccl prefix ("AllReduce", "ncclAllReduce"),
// case-sensitive. All text lives as long as the process; everything here is pure and thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "abi/function_id.hpp"
#include "base/datatype.hpp"

namespace sabot::abi {

enum class Kind : std::uint8_t {
  collective,
  p2p,
  one_sided,
  id,
  init,
  derive,
  finalize,
  destroy,
  abort,
  revoke,
  group,
  query,
  memory,
  redop,
  param,
  device,
};
inline constexpr int kKindCount = 16;

struct FunctionInfo {
  FunctionId id;
  std::string_view name;    // "AllReduce"
  const char* public_name;  // "ncclAllReduce"
  Kind kind;
  std::string_view since;  // "2.28.3"
  int since_code;          // 22803
  bool has_count, has_datatype, has_redop, has_root, has_peer, has_stream, has_comm;
};

extern const FunctionInfo kFunctionRows[kFunctionCount];
inline const FunctionInfo& info(FunctionId id) {
  return kFunctionRows[static_cast<std::size_t>(id)];
}
std::span<const FunctionInfo> all_functions();
std::span<const std::string_view> function_names();  // without prefix
std::optional<FunctionId> find_function(std::string_view name);

// Whether a call of this kind only enqueues while a group is open.
constexpr bool enqueues(Kind kind) {
  return kind == Kind::collective || kind == Kind::p2p || kind == Kind::one_sided ||
         kind == Kind::init || kind == Kind::derive;
}
std::string_view kind_name(Kind kind);
std::optional<Kind> find_kind(std::string_view name);

// "ncclSystemError"; "unknown result 99" has no name and gives "".
std::string_view result_name(int result);
std::optional<int> find_result(std::string_view name);  // "SystemError" or "ncclSystemError"
std::span<const std::string_view> result_names();       // without prefix

// "float32"; "" if unknown. find_datatype also takes NCCL's aliases (half, float, double, char,
// int).
std::string_view datatype_name(int datatype);
std::optional<int> find_datatype(std::string_view name);
std::span<const std::string_view> datatype_names();
// 0 if unknown.
inline std::size_t datatype_bytes(int datatype) {
  if (datatype < 0 || datatype >= kDataTypeCount) return 0;
  return bytes_of(static_cast<DataType>(datatype));
}

// "sum"; "user" for reductions created by the application.
std::string_view redop_name(int redop);
std::optional<int> find_redop(std::string_view name);
std::span<const std::string_view> redop_names();

// 22809 → {2, 28, 9} as text "2.28.9".
struct VersionText {
  char text[24];
};
VersionText version_text(int version_code);

}  // namespace sabot::abi
