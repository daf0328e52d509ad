// Opening the network.
#include "link/net/transport.hpp"

#include <unistd.h>

namespace sabot::link::net {

Transport::Transport(std::vector<Device> devices, std::unique_ptr<RuleSource> rules,
                     const TransportOptions& options)
    : devices_(std::move(devices)),
      rules_(std::move(rules)),
      endpoint_({options.world_rank, static_cast<std::int32_t>(::getpid())}, *rules_),
      dialer_(endpoint_, options.patience) {}

Result<std::unique_ptr<Transport>> Transport::open(const TransportOptions& options,
                                                   std::unique_ptr<RuleSource> rules) {
  const std::vector<Device> all = SABOT_TRY(list_devices());
  std::vector<Device> chosen = SABOT_TRY(choose_devices(all, options.devices));
  return std::unique_ptr<Transport>(new Transport(std::move(chosen), std::move(rules), options));
}

Result<const Device*> Transport::device(int number) const {
  if (number >= 0 && static_cast<std::size_t>(number) < devices_.size())
    return &devices_[static_cast<std::size_t>(number)];
  return Error(Code::kInvalidArgument, "there is no network device " + std::to_string(number) +
                                           "; there are " + std::to_string(devices_.size()));
}

Result<std::unique_ptr<Listener>> Transport::listen(int device_number) {
  const Device* device = SABOT_TRY(this->device(device_number));
  return Listener::open(endpoint_, device->address);
}

}  // namespace sabot::link::net
