// Listing and choosing interfaces.
#include "link/net/device.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace sabot::link::net {
namespace {

constexpr int kUnknownSpeedMbps = 10'000;  // as NCCL assumes where /sys says nothing
constexpr std::string_view kLastChoice[] = {"lo", "docker", "virbr"};

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real == nullptr ? "" : real.get();
}

int speed_of(const std::string& name) {
  const Fd file(::open(("/sys/class/net/" + name + "/speed").c_str(), O_RDONLY | O_CLOEXEC));
  char text[16] = "";
  if (!file.valid() || ::read(file.get(), text, sizeof text - 1) <= 0) return kUnknownSpeedMbps;
  const long speed = std::strtol(text, nullptr, 10);
  return speed > 0 && speed <= INT_MAX ? static_cast<int>(speed) : kUnknownSpeedMbps;
}

bool is_usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  sockaddr_in6 ipv6;
  std::memcpy(&ipv6, entry.ifa_addr, sizeof ipv6);
  return !IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr);
}

bool has_family(const Device& device, std::string_view family) {
  if (family == "AF_INET") return !device.address.is_ipv6;
  if (family == "AF_INET6") return device.address.is_ipv6;
  return true;
}

class Selector {
 public:
  explicit Selector(std::string_view text) {
    text = trim(text);
    excludes_ = text.starts_with('^');
    if (excludes_) text.remove_prefix(1);
    is_exact_ = text.starts_with('=');
    if (is_exact_) text.remove_prefix(1);
    names_ = split(text, ',');
  }
  bool takes(std::string_view interface) const {
    const bool is_named = std::any_of(names_.begin(), names_.end(), [&](std::string_view name) {
      name = trim(name);
      return !name.empty() && (is_exact_ ? interface == name : interface.starts_with(name));
    });
    return is_named != excludes_;
  }

 private:
  bool excludes_ = false;
  bool is_exact_ = false;
  std::vector<std::string_view> names_;
};

bool is_last_choice(std::string_view name) {
  return std::any_of(std::begin(kLastChoice), std::end(kLastChoice),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

template <typename Takes>
std::vector<Device> one_an_interface(std::span<const Device> all, Takes takes) {
  std::vector<Device> chosen;
  for (const Device& device : all) {
    const bool is_there = std::any_of(chosen.begin(), chosen.end(),
                                      [&](const Device& one) { return one.name == device.name; });
    if (!is_there && takes(device) && chosen.size() < kDevicesMax) chosen.push_back(device);
  }
  return chosen;
}

std::string names_of(std::span<const Device> devices) {
  std::vector<std::string_view> names;
  for (const Device& device : devices)
    if (std::find(names.begin(), names.end(), device.name) == names.end())
      names.push_back(device.name);
  return names.empty() ? "no interface with an address" : join(names, ", ");
}

}  // namespace

Result<std::vector<Device>> list_devices() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Error(Code::kSystem, std::string("listing network interfaces: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Device> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!is_usable(*entry)) continue;
    Device device;
    device.name = entry->ifa_name;
    device.pci_path = real_path("/sys/class/net/" + device.name + "/device");
    device.speed_mbps = speed_of(device.name);
    device.address = address_of(*entry->ifa_addr);
    found.push_back(std::move(device));
  }
  return found;
}

Result<std::vector<Device>> choose_devices(std::span<const Device> all,
                                           const DeviceRequest& request) {
  std::vector<Device> chosen;
  if (!trim(request.names).empty()) {
    const Selector selector(request.names);
    chosen = one_an_interface(all, [&](const Device& device) {
      return has_family(device, request.family) && selector.takes(device.name);
    });
  } else {
    for (const bool last : {false, true}) {
      if (!chosen.empty()) break;
      chosen = one_an_interface(all, [&](const Device& device) {
        return has_family(device, request.family) && is_last_choice(device.name) == last;
      });
    }
  }
  if (!chosen.empty()) return chosen;
  return Error(Code::kInvalidArgument,
               "NCCL_SOCKET_IFNAME='" + std::string(request.names) + "' with NCCL_SOCKET_FAMILY='" +
                   std::string(request.family) + "' leaves no interface; this machine has " +
                   names_of(all));
}

}  // namespace sabot::link::net
