// Questions: versions, texts, ranks, teams, properties, settings.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/comm.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

// Writes one int about a communicator that has its seat.
template <typename Get>
Status answer(ncclComm_t handle, const char* argument, int* out, const Get& get) {
  const CommRef comm = enter(handle);
  if (!comm) return explain_handle(handle);
  SABOT_TRY(comm->seated());
  if (out == nullptr) return Error(Code::kInvalidArgument, std::string(argument) + " is NULL");
  *out = get(*comm);
  return {};
}

// Ranks that reach each other's buffers by loads and stores: none, since every rank's memory is its
// own process's. So the LSA team is the rank alone and the rail team, its complement, all ranks.
ncclTeam_t team(void* self, const char* function, ncclComm_t handle, bool alone) {
  const CommRef comm = enter(handle);
  const Status seated = comm ? comm->seated() : Status(explain_handle(handle));
  if (!seated.ok()) {
    report(options_of(self), function, seated.error());
    return ncclTeam_t{0, 0, 0};
  }
  return alone ? ncclTeam_t{1, 0, 1} : ncclTeam_t{comm->seat.ranks, comm->seat.rank, 1};
}

int team_rank(void* self, const char* function, ncclComm_t handle, const ncclTeam_t& of, int rank,
              bool to_lsa) {
  const CommRef comm = enter(handle);
  const Status seated = comm ? comm->seated() : Status(explain_handle(handle));
  if (!seated.ok()) {
    report(options_of(self), function, seated.error());
    return -1;
  }
  const int here = to_lsa ? 0 : comm->seat.rank;
  return here + (rank - of.rank) * of.stride;
}

// ncclCommProperties_t of 2.29.2 to 2.30.7, which nccl.h only declares; fields are only appended.
struct Properties {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int ranks;
  int cuda_device;
  int nvml_device;
  bool has_device_api;
  bool has_multimem;
  int gin_type;
  int lsa_teams;
  bool has_host_rma;
  int railed_gin_type;
};
static_assert(offsetof(Properties, gin_type) == 36 && sizeof(Properties) == 56);

const Parameter* find_parameter(const Options& options, std::string_view key) {
  for (const Parameter& parameter : options.parameters) {
    if (parameter.key == key) return &parameter;
  }
  return nullptr;
}

Error unknown_parameter(const Options& options, std::string_view key) {
  std::vector<std::string_view> known;
  for (const Parameter& parameter : options.parameters) known.push_back(parameter.key);
  const auto close = nearest(key, known);
  return Error(Code::kInvalidArgument,
               "there is no parameter '" + std::string(key) + "'" +
                   (close ? "; did you mean '" + std::string(*close) + "'?" : "") +
                   " The host engine has its own parameters, not NCCL's");
}

// A handle is the address of an element of options.parameters.
Result<const Parameter*> parameter_of(const Options& options, ncclParamHandle_t handle) {
  for (const Parameter& parameter : options.parameters) {
    if (static_cast<const void*>(handle) == &parameter) return &parameter;
  }
  return Error(Code::kInvalidArgument, "h is not a handle that ncclParamBind returned");
}

template <typename T>
ncclResult_t number(void* self, const char* function, ncclParamHandle_t handle, T* out) {
  const auto get = [&]() -> Status {
    const Parameter* parameter = SABOT_TRY(parameter_of(options_of(self), handle));
    if (out == nullptr) return Error(Code::kInvalidArgument, "out is NULL");
    const std::string& text = parameter->value;
    T value{};
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
      *out = value;
      return {};
    }
    return Error(Code::kInvalidArgument,
                 parameter->key + " is '" + text + "', which is no number from " +
                     std::to_string(std::numeric_limits<T>::min()) + " to " +
                     std::to_string(std::numeric_limits<T>::max()));
  };
  return report(options_of(self), function, get());
}

}  // namespace

ncclResult_t GetVersion(void* self, abi::Call*, int* version) {
  if (version == nullptr) {
    return report(options_of(self), "ncclGetVersion",
                  Error(Code::kInvalidArgument, "version is NULL"));
  }
  *version = options_of(self).api_version;
  return ncclSuccess;
}

const char* GetErrorString(void*, abi::Call*, ncclResult_t result) { return error_string(result); }
const char* GetLastError(void*, abi::Call*, ncclComm_t) { return last_error(); }
void ResetDebugInit(void*, abi::Call*) {}

ncclResult_t CommCount(void* self, abi::Call*, const ncclComm_t comm, int* count) {
  return report(options_of(self), "ncclCommCount",
                answer(comm, "count", count, [](const Comm& c) { return c.seat.ranks; }));
}

ncclResult_t CommUserRank(void* self, abi::Call*, const ncclComm_t comm, int* rank) {
  return report(options_of(self), "ncclCommUserRank",
                answer(comm, "rank", rank, [](const Comm& c) { return c.seat.rank; }));
}

ncclResult_t CommCuDevice(void* self, abi::Call*, const ncclComm_t comm, int* device) {
  return report(options_of(self), "ncclCommCuDevice",
                answer(comm, "device", device, [](const Comm& c) { return c.device; }));
}

ncclResult_t CommQueryProperties(void* self, abi::Call*, ncclComm_t handle,
                                 ncclCommProperties_t* props) {
  const auto query = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    SABOT_TRY(comm->seated());
    if (props == nullptr) return Error(Code::kInvalidArgument, "props is NULL");
    constexpr std::size_t kHeadBytes = offsetof(Properties, rank);
    Properties known{};
    std::memcpy(&known, props, kHeadBytes);
    if (known.magic != NCCL_API_MAGIC || known.size < kHeadBytes) {
      return Error(Code::kInvalidArgument,
                   "props was not initialised; start it with NCCL_COMM_PROPERTIES_INITIALIZER");
    }
    known.rank = comm->seat.rank;
    known.ranks = comm->seat.ranks;
    known.cuda_device = comm->device;
    known.nvml_device = -1;
    known.lsa_teams = comm->seat.ranks;
    std::memcpy(static_cast<void*>(props), &known, std::min(known.size, sizeof known));
    return {};
  };
  return report(options_of(self), "ncclCommQueryProperties", query());
}

ncclTeam_t TeamWorld(void* self, abi::Call*, ncclComm_t comm) {
  return team(self, "ncclTeamWorld", comm, false);
}
ncclTeam_t TeamLsa(void* self, abi::Call*, ncclComm_t comm) {
  return team(self, "ncclTeamLsa", comm, true);
}
ncclTeam_t TeamRail(void* self, abi::Call*, ncclComm_t comm) {
  return team(self, "ncclTeamRail", comm, false);
}
int TeamRankToWorld(void* self, abi::Call*, ncclComm_t comm, ncclTeam_t of, int rank) {
  return team_rank(self, "ncclTeamRankToWorld", comm, of, rank, false);
}
int TeamRankToLsa(void* self, abi::Call*, ncclComm_t comm, ncclTeam_t of, int rank) {
  return team_rank(self, "ncclTeamRankToLsa", comm, of, rank, true);
}

ncclResult_t ParamBind(void* self, abi::Call*, ncclParamHandle_t* out, const char* key) {
  const Options& options = options_of(self);
  const auto bind = [&]() -> Status {
    if (out == nullptr) return Error(Code::kInvalidArgument, "out is NULL");
    if (key == nullptr) return Error(Code::kInvalidArgument, "key is NULL");
    const Parameter* found = find_parameter(options, key);
    if (found == nullptr) return unknown_parameter(options, key);
    *out = reinterpret_cast<ncclParamHandle_t>(const_cast<Parameter*>(found));
    return {};
  };
  return report(options, "ncclParamBind", bind());
}

ncclResult_t ParamGetI8(void* self, abi::Call*, ncclParamHandle_t h, int8_t* out) {
  return number(self, "ncclParamGetI8", h, out);
}
ncclResult_t ParamGetI16(void* self, abi::Call*, ncclParamHandle_t h, int16_t* out) {
  return number(self, "ncclParamGetI16", h, out);
}
ncclResult_t ParamGetI32(void* self, abi::Call*, ncclParamHandle_t h, int32_t* out) {
  return number(self, "ncclParamGetI32", h, out);
}
ncclResult_t ParamGetI64(void* self, abi::Call*, ncclParamHandle_t h, int64_t* out) {
  return number(self, "ncclParamGetI64", h, out);
}
ncclResult_t ParamGetU8(void* self, abi::Call*, ncclParamHandle_t h, uint8_t* out) {
  return number(self, "ncclParamGetU8", h, out);
}
ncclResult_t ParamGetU16(void* self, abi::Call*, ncclParamHandle_t h, uint16_t* out) {
  return number(self, "ncclParamGetU16", h, out);
}
ncclResult_t ParamGetU32(void* self, abi::Call*, ncclParamHandle_t h, uint32_t* out) {
  return number(self, "ncclParamGetU32", h, out);
}
ncclResult_t ParamGetU64(void* self, abi::Call*, ncclParamHandle_t h, uint64_t* out) {
  return number(self, "ncclParamGetU64", h, out);
}

ncclResult_t ParamGetStr(void* self, abi::Call*, ncclParamHandle_t h, const char** out) {
  const auto get = [&]() -> Status {
    const Parameter* parameter = SABOT_TRY(parameter_of(options_of(self), h));
    if (out == nullptr) return Error(Code::kInvalidArgument, "out is NULL");
    *out = parameter->value.c_str();
    return {};
  };
  return report(options_of(self), "ncclParamGetStr", get());
}

ncclResult_t ParamGet(void* self, abi::Call*, ncclParamHandle_t h, void* out, int maxLen,
                      int* len) {
  const auto get = [&]() -> Status {
    const Parameter* parameter = SABOT_TRY(parameter_of(options_of(self), h));
    const int bytes = static_cast<int>(parameter->value.size() + 1);
    if (len != nullptr) *len = bytes;
    if (out == nullptr) return Error(Code::kInvalidArgument, "out is NULL");
    if (maxLen < bytes) {
      return Error(Code::kInvalidArgument, "maxLen is " + std::to_string(maxLen) +
                                               ", the value of " + parameter->key + " takes " +
                                               std::to_string(bytes) + " bytes");
    }
    std::memcpy(out, parameter->value.c_str(), static_cast<std::size_t>(bytes));
    return {};
  };
  return report(options_of(self), "ncclParamGet", get());
}

ncclResult_t ParamGetParameter(void* self, abi::Call*, const char* key, const char** value,
                               int* valueLen) {
  const Options& options = options_of(self);
  const auto get = [&]() -> Status {
    if (key == nullptr) return Error(Code::kInvalidArgument, "key is NULL");
    if (value == nullptr) return Error(Code::kInvalidArgument, "value is NULL");
    const Parameter* found = find_parameter(options, key);
    if (found == nullptr) return unknown_parameter(options, key);
    *value = found->value.c_str();
    if (valueLen != nullptr) *valueLen = static_cast<int>(found->value.size());
    return {};
  };
  return report(options, "ncclParamGetParameter", get());
}

ncclResult_t ParamGetAllParameterKeys(void* self, abi::Call*, const char*** table, int* tableLen) {
  const Options& options = options_of(self);
  if (table == nullptr || tableLen == nullptr) {
    return report(
        options, "ncclParamGetAllParameterKeys",
        Error(Code::kInvalidArgument, table == nullptr ? "table is NULL" : "tableLen is NULL"));
  }
  static thread_local std::vector<const char*> keys;
  keys.clear();
  for (const Parameter& parameter : options.parameters) keys.push_back(parameter.key.c_str());
  *table = keys.data();
  *tableLen = static_cast<int>(keys.size());
  return ncclSuccess;
}

void ParamDumpAll(void* self, abi::Call*) {
  for (const Parameter& parameter : options_of(self).parameters) {
    log::line(parameter.key + "=" + parameter.value);
  }
}

}  // namespace sabot::comm::slots
