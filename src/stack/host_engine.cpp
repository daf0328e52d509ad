// The host engine, configured from the settings of this process.
#include "comm/host_api.hpp"
#include "stack/product.hpp"

namespace sabot::stack {
namespace {

using config::KnobId;

// NCCL_DEBUG as on the real library: WARN and above print errors, INFO also what communicators do.
comm::Verbosity verbosity_of(std::string_view nccl_debug) {
  if (nccl_debug == "WARN") return comm::Verbosity::kWarn;
  if (nccl_debug == "INFO" || nccl_debug == "TRACE") return comm::Verbosity::kInfo;
  return comm::Verbosity::kSilent;
}

}  // namespace

abi::Api host_engine(const config::Snapshot& settings) {
  comm::Options options;
  options.timeout_ns = settings.get<KnobId::kTimeout>();
  options.interface = settings.get<KnobId::kSocketInterface>();
  options.verbosity = verbosity_of(settings.get<KnobId::kNcclDebug>());
  for (const config::Row& row : settings.rows())
    options.parameters.push_back({std::string(row.name), std::string(row.value)});
  return comm::host_api(options);
}

}  // namespace sabot::stack
