// The network interfaces that carry NCCL's traffic, by the rules of NCCL's own socket transport.
//
// NCCL_SOCKET_IFNAME holds prefixes of names, separated by commas: "=eth0" for exact names,
// "^docker,lo" for all but these. Without it every interface but loopback and Docker's is taken;
// those come in where there is nothing else. Choosing is pure; listing is not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "link/net/address.hpp"

namespace sabot::link::net {

inline constexpr std::size_t kDevicesMax = 16;

struct Device {
  std::string name;      // "eth0"
  std::string pci_path;  // in /sys, "" = none
  int speed_mbps = 0;
  Address address;  // port 0
};

struct DeviceRequest {
  std::string_view names;   // NCCL_SOCKET_IFNAME, "" = not set
  std::string_view family;  // NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, "" = either
};

// All addresses of all interfaces that are up, link-local ones of IPv6 left out.
Result<std::vector<Device>> list_devices();
// One device an interface, at most kDevicesMax, in the order of the list. kInvalidArgument: none is
// left.
Result<std::vector<Device>> choose_devices(std::span<const Device> all,
                                           const DeviceRequest& request);

}  // namespace sabot::link::net
