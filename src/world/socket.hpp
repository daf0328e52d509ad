// The socket calls of the rendezvous, all non-blocking and close-on-exec, all waits bounded.
//
// TCP carries one fixed-size question and answer; everything after it goes over an abstract Unix
// socket of packets, because only that can carry descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "world/unique_id.hpp"

namespace sabot::world {

// How long somebody is ready to wait, and what may end the wait earlier.
struct Patience {
  std::uint64_t deadline_ns = 0;         // CLOCK_MONOTONIC
  std::function<Status()> interruption;  // asked every kPollMs; an error ends the wait with it
};
inline constexpr int kPollMs = 20;

// Descriptors in one packet; the kernel's own limit (SCM_MAX_FD) is 253.
inline constexpr std::size_t kFdsPerPacketMax = 128;

Result<Fd> listen_tcp(Address& address);  // fills in the port
Result<Fd> listen_unix(const std::string& abstract_name);

// Timeout when the deadline passes. A refused connection is NotFound.
Result<Fd> connect_tcp(const Address& address, const Patience& patience);
Result<Fd> connect_unix(const std::string& abstract_name);

// The process that listens at the other end of a Unix socket; 0 if unknown or in another namespace.
pid_t listener_of(int fd);

// Waits for poll(2) events; Timeout, or the interruption's error.
Status await(int fd, short events, const Patience& patience);

// Whole fixed-size messages over a stream.
Status send_all(int fd, std::span<const std::byte> bytes, const Patience& patience);
Status receive_all(int fd, std::span<std::byte> bytes, const Patience& patience);

struct Packet {
  std::size_t bytes = 0;  // 0 = the other side has closed
  std::vector<Fd> fds;
};
// One packet with descriptors; both expect the socket to be ready and report EAGAIN as InProgress.
Status send_packet(int fd, std::span<const std::byte> bytes, std::span<const int> fds);
Result<Packet> receive_packet(int fd, std::span<std::byte> bytes);

}  // namespace sabot::world
