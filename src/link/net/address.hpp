// An address and a port, and the few socket calls that take them. All sockets are non-blocking and
// close-on-exec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

struct sockaddr;

namespace sabot::link::net {

struct Address {
  bool is_ipv6 = false;
  std::array<std::byte, 16> bytes{};  // network order; IPv4 uses the first four
  std::uint16_t port = 0;             // host order
  std::uint32_t scope = 0;            // of a link-local IPv6 address
};

// Precondition: raw is of AF_INET or AF_INET6.
Address address_of(const sockaddr& raw);
// "127.0.0.1:40123", "[::1]:40123"; without ":0".
std::string to_text(const Address& address);

// Listens on a free port of this address and fills it in.
Result<Fd> listen_on(Address& address);
// The next connection in the queue; an invalid Fd: none.
Result<Fd> next_connection(int listening);
// Begins to connect. The connection stands, or has failed, when connection_error() says so.
Result<Fd> begin_to_connect(const Address& address);
// EINPROGRESS while it is being made, 0 when it stands, else why it failed.
int connection_error(int fd);
// No delay for small messages; the kernel notices a peer that is gone without a word.
void prepare_for_messages(int fd);
// Closes so that the peer gets a reset instead of an orderly end.
void close_with_reset(Fd& fd);

}  // namespace sabot::link::net
