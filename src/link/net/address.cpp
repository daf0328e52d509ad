// Sockets of the network plugin.
#include "link/net/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sabot::link::net {
namespace {

// A host that is gone without a word is noticed by a receiver after a minute, when the kernel's
// probes are not answered, and by a sender once the kernel gives up repeating. No TCP_USER_TIMEOUT:
// it would also end a connection whose peer is alive and just does not read for that long.
constexpr int kIdleSeconds = 30;
constexpr int kProbeSeconds = 10;
constexpr int kProbes = 3;

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

RawAddress raw_of(const Address& address) {
  RawAddress raw;
  if (address.is_ipv6) {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    ipv6.sin6_scope_id = address.scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof ipv6.sin6_addr);
    std::memcpy(&raw.storage, &ipv6, sizeof ipv6);
    raw.length = sizeof ipv6;
  } else {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof ipv4.sin_addr);
    std::memcpy(&raw.storage, &ipv4, sizeof ipv4);
    raw.length = sizeof ipv4;
  }
  return raw;
}

Error system_error(const std::string& doing) {
  return Error(Code::kSystem, doing + ": " + std::strerror(errno));
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

Result<Fd> make_socket(const Address& address) {
  const int family = address.is_ipv6 ? AF_INET6 : AF_INET;
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error("making a socket for " + to_text(address));
  return fd;
}

}  // namespace

Address address_of(const sockaddr& raw) {
  Address address;
  if (raw.sa_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, &raw, sizeof ipv6);
    address.is_ipv6 = true;
    address.scope = ipv6.sin6_scope_id;
    address.port = ntohs(ipv6.sin6_port);
    std::memcpy(address.bytes.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
  } else {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, &raw, sizeof ipv4);
    address.port = ntohs(ipv4.sin_port);
    std::memcpy(address.bytes.data(), &ipv4.sin_addr, sizeof ipv4.sin_addr);
  }
  return address;
}

std::string to_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.is_ipv6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  if (address.port == 0) return text;
  const std::string port = std::to_string(address.port);
  return address.is_ipv6 ? "[" + std::string(text) + "]:" + port : std::string(text) + ":" + port;
}

Result<Fd> listen_on(Address& address) {
  Fd fd = SABOT_TRY(make_socket(address));
  const RawAddress wanted = raw_of(address);
  constexpr int kBacklog = 128;
  if (::bind(fd.get(), wanted.get(), wanted.length) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return system_error("listening on " + to_text(address));
  RawAddress given;
  given.length = sizeof given.storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&given.storage), &given.length) != 0)
    return system_error("asking for the port on " + to_text(address));
  const std::uint32_t scope = address.scope;
  address = address_of(*given.get());
  address.scope = scope;
  return fd;
}

Result<Fd> next_connection(int listening) {
  Fd fd(::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) return fd;
  switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:  // it was there and is gone: the next attempt sees what is left
    case EPROTO: return Fd();
    default: return system_error("accepting a connection");
  }
}

Result<Fd> begin_to_connect(const Address& address) {
  Fd fd = SABOT_TRY(make_socket(address));
  const RawAddress raw = raw_of(address);
  const int result = ::connect(fd.get(), raw.get(), raw.length);
  if (result == 0 || errno == EINPROGRESS || errno == EINTR) return fd;
  const bool is_peer = errno == ECONNREFUSED || errno == ENETUNREACH || errno == EHOSTUNREACH;
  return Error(is_peer ? Code::kRemote : Code::kSystem,
               "connecting to " + to_text(address) + ": " + std::strerror(errno));
}

int connection_error(int fd) {
  pollfd state{fd, POLLOUT, 0};
  if (::poll(&state, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

void prepare_for_messages(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

void close_with_reset(Fd& fd) {
  if (!fd.valid()) return;
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}

}  // namespace sabot::link::net
