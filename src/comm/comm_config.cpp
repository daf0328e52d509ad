// Size, magic, version come first in every layout ever; fields were only appended, so the caller's
// bytes are laid over a struct of defaults and a longer tail is not looked at.
#include "comm/comm_config.hpp"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace sabot::comm {
namespace {

constexpr unsigned kMagic = NCCL_API_MAGIC;
constexpr std::size_t kHeadBytes = offsetof(ncclConfig_t, blocking);
constexpr std::size_t kNameBytesMax = 256;

struct Range {
  const char* field;
  int ncclConfig_t::*member;
  int least;
  int most;
};

// Ranges that NCCL documents or checks itself.
constexpr Range kRanges[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, 8},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, 64},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, 64},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1},
    {"trafficClass", &ncclConfig_t::trafficClass, 0, INT_MAX},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, INT_MAX},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 0, INT_MAX},
};

ncclConfig_t undefined() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

Status check(const ncclConfig_t& config) {
  for (const Range& range : kRanges) {
    const int value = config.*range.member;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= range.least && value <= range.most)) continue;
    const std::string upper =
        range.most == INT_MAX ? "" : " and at most " + std::to_string(range.most);
    return Error(Code::kInvalidArgument, std::string("config->") + range.field + " is " +
                                             std::to_string(value) + ", must be at least " +
                                             std::to_string(range.least) + upper);
  }
  const bool both =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (both && config.minCTAs > config.maxCTAs) {
    return Error(Code::kInvalidArgument, "config->minCTAs is " + std::to_string(config.minCTAs) +
                                             ", more than config->maxCTAs, which is " +
                                             std::to_string(config.maxCTAs));
  }
  return {};
}

}  // namespace

Result<CommConfig> read_config(const ncclConfig_t* config, const CommConfig& inherited) {
  if (config == nullptr) return inherited;
  if (config->magic != kMagic || config->size < kHeadBytes) {
    return Error(Code::kInvalidArgument,
                 "config was not initialised; start it with NCCL_CONFIG_INITIALIZER");
  }
  ncclConfig_t known = undefined();
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  SABOT_TRY(check(known));
  CommConfig result = inherited;
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = known.blocking != 0;
  if (known.commName != nullptr) {
    result.name.assign(known.commName, ::strnlen(known.commName, kNameBytesMax));
  }
  return result;
}

}  // namespace sabot::comm
