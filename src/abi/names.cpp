// Look-ups over the rows that api/generate.py makes from the spec.
#include "abi/names.hpp"

#include <array>
#include <cstdio>

#include "base/datatype.hpp"
#include "base/text.hpp"

namespace sabot::abi {

// Each pass over names.inc takes one kind of row and ignores the others.
#define SABOT_RESULT_ROW(...)
#define SABOT_DATATYPE_ROW(...)
#define SABOT_REDOP_ROW(...)
#define SABOT_FUNCTION_ROW(name, kind, since, code, count, datatype, redop, root, peer, stream, \
                           comm)                                                                \
  {FunctionId::k##name,                                                                         \
   #name,                                                                                       \
   "nccl" #name,                                                                                \
   Kind::kind,                                                                                  \
   since,                                                                                       \
   code,                                                                                        \
   count,                                                                                       \
   datatype,                                                                                    \
   redop,                                                                                       \
   root,                                                                                        \
   peer,                                                                                        \
   stream,                                                                                      \
   comm},
constexpr FunctionInfo kFunctionRows[kFunctionCount] = {
#include "abi/names.inc"
};
#undef SABOT_FUNCTION_ROW

namespace {

#define SABOT_FUNCTION_ROW(name, ...) #name,
constexpr std::array<std::string_view, kFunctionCount> kFunctionNames{{
#include "abi/names.inc"
}};
#undef SABOT_FUNCTION_ROW
#define SABOT_FUNCTION_ROW(...)

struct Named {
  std::string_view name;  // with the nccl prefix
  int value;
};

#undef SABOT_RESULT_ROW
#define SABOT_RESULT_ROW(name, value) Named{name, value},
constexpr Named kResults[] = {
#include "abi/names.inc"
};
#undef SABOT_RESULT_ROW
#define SABOT_RESULT_ROW(...)

#undef SABOT_DATATYPE_ROW
#define SABOT_DATATYPE_ROW(name, value) Named{name, value},
constexpr Named kDatatypes[] = {
#include "abi/names.inc"
};
#undef SABOT_DATATYPE_ROW
#define SABOT_DATATYPE_ROW(...)

#undef SABOT_REDOP_ROW
#define SABOT_REDOP_ROW(name, value) Named{name, value},
constexpr Named kRedops[] = {
#include "abi/names.inc"
};

constexpr std::array<std::string_view, kKindCount> kKindNames{
    "collective", "p2p",    "one_sided", "id",    "init",   "derive", "finalize", "destroy",
    "abort",      "revoke", "group",     "query", "memory", "redop",  "param",    "device"};

constexpr std::string_view without_prefix(std::string_view name) {
  constexpr std::string_view kPrefix = "nccl";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

template <std::size_t N>
constexpr auto short_names(const Named (&rows)[N]) {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = without_prefix(rows[i].name);
  return names;
}

constexpr auto kResultNames = short_names(kResults);

std::optional<int> find_ignoring_case(std::span<const Named> rows, std::string_view name) {
  const std::string_view wanted = without_prefix(name);
  for (const Named& row : rows)
    if (equals_ignoring_case(without_prefix(row.name), wanted)) return row.value;
  return std::nullopt;
}

}  // namespace

std::span<const FunctionInfo> all_functions() { return kFunctionRows; }

std::span<const std::string_view> function_names() { return kFunctionNames; }

std::optional<FunctionId> find_function(std::string_view name) {
  const std::string_view wanted = without_prefix(name);
  for (const FunctionInfo& row : kFunctionRows)
    if (row.name == wanted) return row.id;
  return std::nullopt;
}

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<Kind> find_kind(std::string_view name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == name) return static_cast<Kind>(i);
  return std::nullopt;
}

std::string_view result_name(int result) {
  for (const Named& row : kResults)
    if (row.value == result) return row.name;
  return {};
}

std::optional<int> find_result(std::string_view name) {
  const std::string_view wanted = without_prefix(name);
  for (const Named& row : kResults)
    if (without_prefix(row.name) == wanted) return row.value;
  return std::nullopt;
}

std::span<const std::string_view> result_names() { return kResultNames; }

std::string_view datatype_name(int datatype) {
  if (datatype < 0 || datatype >= kDataTypeCount) return {};
  return name_of(static_cast<DataType>(datatype));
}

std::optional<int> find_datatype(std::string_view name) {
  return find_ignoring_case(kDatatypes, name);
}

std::span<const std::string_view> datatype_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kDataTypeCount> names;
    for (int i = 0; i < kDataTypeCount; ++i)
      names[static_cast<std::size_t>(i)] = name_of(static_cast<DataType>(i));
    return names;
  }();
  return kNames;
}

std::string_view redop_name(int redop) {
  constexpr int kBuiltIn = static_cast<int>(std::size(kRedops));
  if (redop < 0) return {};
  if (redop >= kBuiltIn) return "user";
  return name_of(static_cast<ReduceOp>(redop));
}

std::optional<int> find_redop(std::string_view name) { return find_ignoring_case(kRedops, name); }

std::span<const std::string_view> redop_names() {
  static constexpr std::array<std::string_view, 5> kNames{"sum", "prod", "max", "min", "avg"};
  return kNames;
}

VersionText version_text(int version_code) {
  const bool old_formula = version_code < 10000;
  const int major = old_formula ? version_code / 1000 : version_code / 10000;
  const int rest = old_formula ? version_code % 1000 : version_code % 10000;
  VersionText out{};
  std::snprintf(out.text, sizeof out.text, "%d.%d.%d", major, rest / 100, rest % 100);
  return out;
}

}  // namespace sabot::abi
