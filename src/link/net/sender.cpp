// Gathering messages and sending them.
#include "link/net/sender.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace sabot::link::net {

// What one system call is given.
struct Sender::Batch {
  static constexpr std::size_t kMessages = 16;
  std::array<iovec, 2 * kMessages> pieces;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_max = ~std::uint64_t{0};

  bool is_full() const { return count + 2 > pieces.size() || bytes == bytes_max; }
  void add(void* from, std::uint64_t length) {
    length = std::min(length, bytes_max - bytes);
    if (length == 0) return;
    pieces[count++] = {from, length};
    bytes += length;
  }
};

// A message that has begun to leave goes on; a delay counts from when it was posted, or from when
// the delay began, if that was later.
bool Sender::may_leave(const sabot_link_rule_t& rule, Request& request) {
  if ((rule.effects & SABOT_LINK_DELAY) == 0) return true;
  const std::uint64_t now = monotonic_ns();
  if (request.posted_ns == 0) request.posted_ns = now;
  return now >= request.posted_ns + rule.delay_ns;
}

void Sender::gather(const sabot_link_rule_t& rule, Batch& batch) {
  for (std::uint64_t place = begun_; place != posted_ && !batch.is_full(); ++place) {
    Request& request = at(place);
    std::uint64_t out = place == begun_ ? offset_ : 0;
    if (out == 0) {
      if (!may_leave(rule, request)) return;
      head_of(place) = {kHeadMagic, static_cast<std::uint32_t>(request.bytes), place};
    }
    if (out < kHeadBytes) {
      batch.add(reinterpret_cast<std::byte*>(&head_of(place)) + out, kHeadBytes - out);
      out = kHeadBytes;
    }
    batch.add(request.data + (out - kHeadBytes), request.bytes - (out - kHeadBytes));
  }
}

void Sender::went(std::uint64_t bytes) {
  while (bytes != 0) {
    Request& request = at(begun_);
    const std::uint64_t left = kHeadBytes + request.bytes - offset_;
    if (bytes < left) {
      offset_ += bytes;
      return;
    }
    bytes -= left;
    offset_ = 0;
    request.is_done = true;
    ++begun_;
  }
}

Status Sender::progress(const sabot_link_rule_t& rule) {
  while (begun_ != posted_) {
    if ((rule.effects & SABOT_LINK_DROP) != 0 && offset_ == 0) {
      at(begun_++).is_done = true;
      continue;
    }
    Batch batch;
    const bool is_throttled =
        (rule.effects & SABOT_LINK_THROTTLE) != 0 && rule.rate_bytes_per_s != 0;
    const std::uint64_t now = is_throttled ? monotonic_ns() : 0;
    if (is_throttled) batch.bytes_max = pace().allowance(~0U, rule.rate_bytes_per_s, now);
    gather(rule, batch);
    if (batch.bytes == 0) return {};
    msghdr message{};
    message.msg_iov = batch.pieces.data();
    message.msg_iovlen = batch.count;
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return {};
      return socket_error(errno);
    }
    const auto bytes = static_cast<std::uint64_t>(sent);
    if (is_throttled) pace().went(bytes, rule.rate_bytes_per_s, now);
    went(bytes);
    if (bytes < batch.bytes) return {};
  }
  return {};
}

std::string Sender::doing() const {
  return "sending message " + std::to_string(begun_) + " to " + peer().name();
}

}  // namespace sabot::link::net
