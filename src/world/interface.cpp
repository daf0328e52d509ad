// Matching of interface selectors and the system's list of interfaces.
#include "world/interface.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.hpp"

namespace sabot::world {
namespace {

Address loopback_ipv4() {
  Address address;
  address.bytes = {127, 0, 0, 1};
  return address;
}

Address address_of(const sockaddr& raw) {
  Address address;
  if (raw.sa_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &raw, sizeof ipv4);
    std::memcpy(address.bytes.data(), &ipv4.sin_addr, sizeof ipv4.sin_addr);
  } else {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &raw, sizeof ipv6);
    address.is_ipv6 = true;
    address.scope = ipv6.sin6_scope_id;
    std::memcpy(address.bytes.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
  }
  return address;
}

bool is_named(std::string_view interface, std::span<const std::string_view> names, bool exact) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return exact ? interface == name : !name.empty() && interface.starts_with(name);
  });
}

std::string known_names(std::span<const Interface> all) {
  std::vector<std::string_view> names;
  for (const Interface& one : all) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  }
  return names.empty() ? "no interface that is up" : join(names, ", ");
}

}  // namespace

Result<std::vector<Interface>> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Error(Code::kSystem, std::string("listing network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back(
        {entry->ifa_name, (entry->ifa_flags & IFF_LOOPBACK) != 0, address_of(*entry->ifa_addr)});
  }
  return found;
}

Result<Address> choose_address(std::span<const Interface> all, std::string_view selector) {
  if (trim(selector).empty()) return loopback_ipv4();
  std::string_view rest = trim(selector);
  const bool excluding = rest.starts_with('^');
  if (excluding) rest.remove_prefix(1);
  const bool exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  const std::vector<std::string_view> names = split(rest, ',');

  const Interface* best = nullptr;
  for (const Interface& one : all) {
    const bool named = is_named(one.name, names, exact);
    if (named == excluding || (excluding && one.is_loopback)) continue;
    if (best == nullptr || (best->address.is_ipv6 && !one.address.is_ipv6)) best = &one;
  }
  if (best == nullptr) {
    return Error(Code::kInvalidArgument, "SABOT_SOCKET_IFNAME='" + std::string(selector) +
                                             "' matches no interface; this machine has " +
                                             known_names(all));
  }
  return best->address;
}

std::string to_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.is_ipv6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  const std::string port = std::to_string(address.port);
  return address.is_ipv6 ? "[" + std::string(text) + "]:" + port : std::string(text) + ":" + port;
}

}  // namespace sabot::world
