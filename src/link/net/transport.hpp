// The network of this process: its devices, listeners and connections.
//
// One for the life of the process. What NCCL's plugin interface makes of it is products/net.
#pragma once

#include <memory>
#include <vector>

#include "link/net/device.hpp"
#include "link/net/dialer.hpp"
#include "link/net/listener.hpp"

namespace sabot::link::net {

struct TransportOptions {
  DeviceRequest devices;
  int world_rank = -1;
  Patience patience;
};

class Transport {
 public:
  // rules is kept. kInvalidArgument: no device. kSystem.
  static Result<std::unique_ptr<Transport>> open(const TransportOptions& options,
                                                 std::unique_ptr<RuleSource> rules);

  const std::vector<Device>& devices() const { return devices_; }
  // Any thread. kInvalidArgument: there is no such device.
  Result<const Device*> device(int number) const;
  Result<std::unique_ptr<Listener>> listen(int device_number);
  Dialer& dialer() { return dialer_; }

 private:
  Transport(std::vector<Device> devices, std::unique_ptr<RuleSource> rules,
            const TransportOptions& options);

  std::vector<Device> devices_;
  std::unique_ptr<RuleSource> rules_;
  Endpoint endpoint_;
  Dialer dialer_;
};

}  // namespace sabot::link::net
