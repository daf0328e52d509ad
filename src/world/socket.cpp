// Thin wrappers; EINTR is retried, EAGAIN waits, everything else becomes an Error with the call's
// name.
#include "world/socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "world/interface.hpp"

namespace sabot::world {
namespace {

constexpr int kBacklog = 1024;

Error failed(const char* call) {
  return Error(Code::kSystem, std::string(call) + ": " + std::strerror(errno));
}

Error closed() { return Error(Code::kRemote, "the other side closed the connection"); }

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

RawAddress raw(const Address& address) {
  RawAddress result;
  if (address.is_ipv6) {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    ipv6.sin6_scope_id = address.scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof ipv6.sin6_addr);
    std::memcpy(&result.storage, &ipv6, sizeof ipv6);
    result.bytes = sizeof ipv6;
  } else {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof ipv4.sin_addr);
    std::memcpy(&result.storage, &ipv4, sizeof ipv4);
    result.bytes = sizeof ipv4;
  }
  return result;
}

Result<RawAddress> raw(const std::string& abstract_name) {
  sockaddr_un name{};
  if (abstract_name.size() + 1 > sizeof name.sun_path) {
    return Error(Code::kInternal, "socket name '" + abstract_name + "' is too long");
  }
  name.sun_family =
      AF_UNIX;  // sun_path[0] stays zero: the abstract namespace, no file to leave behind
  std::memcpy(name.sun_path + 1, abstract_name.data(), abstract_name.size());
  RawAddress result;
  std::memcpy(&result.storage, &name, sizeof name);
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + abstract_name.size());
  return result;
}

Result<Fd> open_socket(int family, int type) {
  Fd fd(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failed("socket");
  return fd;
}

// A socket that wanted to send into a dead peer must not kill the host process with SIGPIPE.
constexpr int kSendFlags = MSG_NOSIGNAL;

}  // namespace

Result<Fd> listen_tcp(Address& address) {
  const int family = address.is_ipv6 ? AF_INET6 : AF_INET;
  Fd fd = SABOT_TRY(open_socket(family, SOCK_STREAM));
  RawAddress bound = raw(address);
  if (::bind(fd.get(), bound.get(), bound.bytes) != 0) {
    return failed("bind").context("listening on " + to_text(address));
  }
  if (::listen(fd.get(), kBacklog) != 0) return failed("listen");
  if (::getsockname(fd.get(), bound.get(), &bound.bytes) != 0) return failed("getsockname");
  const std::uint16_t port = address.is_ipv6
                                 ? reinterpret_cast<const sockaddr_in6*>(bound.get())->sin6_port
                                 : reinterpret_cast<const sockaddr_in*>(bound.get())->sin_port;
  address.port = ntohs(port);
  return fd;
}

Result<Fd> listen_unix(const std::string& abstract_name) {
  Fd fd = SABOT_TRY(open_socket(AF_UNIX, SOCK_SEQPACKET));
  const RawAddress name = SABOT_TRY(raw(abstract_name));
  if (::bind(fd.get(), name.get(), name.bytes) != 0) {
    return failed("bind").context("listening on local socket " + abstract_name);
  }
  if (::listen(fd.get(), kBacklog) != 0) return failed("listen");
  return fd;
}

Result<Fd> connect_tcp(const Address& address, const Patience& patience) {
  Fd fd = SABOT_TRY(open_socket(address.is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM));
  const RawAddress peer = raw(address);
  if (::connect(fd.get(), peer.get(), peer.bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR && errno != ECONNREFUSED) return failed("connect");
    if (errno != ECONNREFUSED) SABOT_TRY(await(fd.get(), POLLOUT, patience));
  }
  int outcome = 0;
  socklen_t size = sizeof outcome;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &outcome, &size) != 0)
    return failed("getsockopt");
  sockaddr_storage peer_name{};
  socklen_t peer_size = sizeof peer_name;
  const bool connected =
      outcome == 0 &&
      ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer_name), &peer_size) == 0;
  if (!connected && (outcome == ECONNREFUSED || outcome == 0)) {
    return Error(Code::kNotFound, "connection refused");
  }
  if (!connected) return Error(Code::kSystem, std::string("connect: ") + std::strerror(outcome));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

Result<Fd> connect_unix(const std::string& abstract_name) {
  Fd fd = SABOT_TRY(open_socket(AF_UNIX, SOCK_SEQPACKET));
  const RawAddress name = SABOT_TRY(raw(abstract_name));
  if (::connect(fd.get(), name.get(), name.bytes) == 0) return fd;
  // EAGAIN: the listener's backlog is full for the moment; like "not yet there", worth another try.
  if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN) {
    return Error(Code::kNotFound, "connection refused");
  }
  return failed("connect");
}

pid_t listener_of(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return 0;
  return credentials.pid;
}

Status await(int fd, short events, const Patience& patience) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, kPollMs);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failed("poll");
    if (patience.interruption) SABOT_TRY(patience.interruption());
    if (monotonic_ns() >= patience.deadline_ns) return Error(Code::kTimeout, "no answer in time");
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), kSendFlags);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      SABOT_TRY(await(fd, POLLOUT, patience));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return closed();
    } else if (errno != EINTR) {
      return failed("send");
    }
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return closed();
    } else if (errno == EAGAIN) {
      SABOT_TRY(await(fd, POLLIN, patience));
    } else if (errno != EINTR) {
      return failed("recv");
    }
  }
  return {};
}

Status send_packet(int fd, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsPerPacketMax)> control{};
  if (!fds.empty()) {
    if (fds.size() > kFdsPerPacketMax) return Error(Code::kInternal, "too many descriptors");
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    if (::sendmsg(fd, &message, kSendFlags) >= 0) return {};
    if (errno == EAGAIN) return Error(Code::kInProgress, "the socket is full");
    if (errno == EPIPE || errno == ECONNRESET) return closed();
    if (errno != EINTR) return failed("sendmsg");
  }
}

Result<Packet> receive_packet(int fd, std::span<std::byte> bytes) {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsPerPacketMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  // A peer that closes before it has read our last packet leaves ECONNRESET, reported once and
  // ahead of the packets it had sent; those are what we want.
  ssize_t got = -1;
  for (int resets = 0; resets < 2; ++resets) {
    do {
      got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got >= 0 || errno != ECONNRESET) break;
  }
  if (got < 0 && errno == EAGAIN) return Error(Code::kInProgress, "nothing to read");
  if (got < 0 && errno == ECONNRESET) return Packet{};
  if (got < 0) return failed("recvmsg");
  Packet packet;
  packet.bytes = static_cast<std::size_t>(got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
      packet.fds.emplace_back(number);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Error(
        Code::kSystem,
        "descriptors were lost on the way; the limit of open files (ulimit -n) is too low");
  }
  return packet;
}

}  // namespace sabot::world
