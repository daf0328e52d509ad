// Which of this machine's addresses the rendezvous listens on.
//
// The selector has the form that NCCL_SOCKET_IFNAME users know: comma-separated prefixes of
// interface names, "=eth0" for an exact name, "^docker,lo" for everything but. Choosing is pure;
// reading the list of interfaces is not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "world/unique_id.hpp"

namespace sabot::world {

struct Interface {
  std::string name;
  bool is_loopback = false;
  Address address;
};

// All interfaces that are up and have an IP address.
Result<std::vector<Interface>> interfaces();

// An empty selector means loopback. Loopback is otherwise taken only when named; IPv4 before IPv6.
Result<Address> choose_address(std::span<const Interface> all, std::string_view selector);

// "127.0.0.1:40123", "[::1]:40123".
std::string to_text(const Address& address);

}  // namespace sabot::world
