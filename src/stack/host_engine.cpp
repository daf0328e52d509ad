// The host engine, configured from the settings of this process, and heeding its link faults.
#include <memory>

#include "base/clock.hpp"
#include "comm/host_api.hpp"
#include "layer/effects/link_rules.hpp"
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

// The link rules of this process, for one rank of one communicator.
class CommRules final : public link::net::RuleSource {
 public:
  CommRules(const void* comm, int rank) : comm_(comm), rank_(rank) {}

  std::uint64_t generation() const override { return rules_.generation(); }
  sabot_link_rule_t rule_for(int peer) const override {
    return rules_.within(comm_, rank_, peer, monotonic_ns());
  }

 private:
  const layer::LinkRules& rules_ = layer::LinkRules::process();
  const void* comm_;
  int rank_;
};

}  // namespace

abi::Api host_engine(const config::Snapshot& settings) {
  comm::Options options;
  options.timeout_ns = settings.get<KnobId::kTimeout>();
  options.interface = settings.get<KnobId::kSocketInterface>();
  options.verbosity = verbosity_of(settings.get<KnobId::kNcclDebug>());
  for (const config::Row& row : settings.rows())
    options.parameters.push_back({std::string(row.name), std::string(row.value)});
  options.links = [](const void* comm, int rank) {
    return std::make_unique<const CommRules>(comm, rank);
  };
  layer::LinkRules::process().note_carrier(layer::LinkRules::Carrier::kHostEngine);
  return comm::host_api(options);
}

}  // namespace sabot::stack
