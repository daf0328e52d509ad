// Composition: the environment's knobs, the rules of the process's Sabot, and the sockets.
#include "process.hpp"

#include "config/snapshot.hpp"
#include "link/net/process_rules.hpp"

namespace sabot::products::net {
namespace {

using config::KnobId;

Result<std::unique_ptr<link::net::Transport>> open_transport() {
  const config::Snapshot& settings = config::process();
  link::net::TransportOptions options;
  options.devices = {settings.get<KnobId::kNcclSocketInterface>(),
                     settings.get<KnobId::kNcclSocketFamily>()};
  options.world_rank = settings.world_rank().value_or(-1);
  return link::net::Transport::open(options,
                                    std::make_unique<link::net::ProcessRules>(options.world_rank));
}

}  // namespace

const Result<std::unique_ptr<link::net::Transport>>& process_transport() {
  // Never destroyed: NCCL's threads may still use it while the process ends.
  static const auto* transport =
      new Result<std::unique_ptr<link::net::Transport>>(open_transport());
  return *transport;
}

}  // namespace sabot::products::net
