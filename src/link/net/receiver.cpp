// Reading ahead, and reading straight into buffers.
#include "link/net/receiver.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sabot::link::net {

// Reads the head at the beginning of the store.
Status Receiver::begin_message() {
  Head head;
  std::memcpy(&head, store_.data() + store_begin_, sizeof head);
  store_begin_ += sizeof head;
  if (head.magic != kHeadMagic || head.bytes > kMessageBytesMax)
    return remote_error(
        "what came is not the head of a message; is something else talking to "
        "this port?");
  if (head.sequence > begun_)
    return remote_error("messages " + std::to_string(begun_) + " to " +
                        std::to_string(head.sequence - 1) + " were lost on the way");
  if (head.sequence < begun_) return remote_error("a message came twice");
  if (head.bytes > at(begun_).bytes)
    return Error(Code::kInvalidUsage, doing() + ": it has " + std::to_string(head.bytes) +
                                          " bytes, the buffer has " +
                                          std::to_string(at(begun_).bytes));
  has_head_ = true;
  message_bytes_ = head.bytes;
  got_bytes_ = 0;
  return {};
}

// Ends as many messages as the store has.
Status Receiver::take_from_store() {
  while (begun_ != posted_) {
    if (!has_head_) {
      if (store_end_ - store_begin_ < kHeadBytes) return {};
      SABOT_TRY(begin_message());
    }
    Request& request = at(begun_);
    const std::size_t bytes =
        std::min<std::size_t>(store_end_ - store_begin_, message_bytes_ - got_bytes_);
    if (bytes != 0) std::memcpy(request.data + got_bytes_, store_.data() + store_begin_, bytes);
    store_begin_ += bytes;
    got_bytes_ += bytes;
    if (got_bytes_ != message_bytes_) return {};
    request.bytes = message_bytes_;
    request.is_done = true;
    has_head_ = false;
    ++begun_;
  }
  return {};
}

// 0: nothing is there.
Result<std::size_t> Receiver::read_more() {
  const std::size_t kept = store_end_ - store_begin_;
  if (store_begin_ != 0 && kept != 0)
    std::memmove(store_.data(), store_.data() + store_begin_, kept);
  store_begin_ = 0;
  store_end_ = kept;
  const std::uint64_t missing = has_head_ ? message_bytes_ - got_bytes_ : 0;
  const std::size_t ahead = missing > kStoreBytes ? kAheadBytes : kStoreBytes - kept;
  iovec pieces[2];
  int count = 0;
  if (missing != 0) pieces[count++] = {at(begun_).data + got_bytes_, missing};
  pieces[count++] = {store_.data() + kept, ahead};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = static_cast<std::size_t>(count);
  const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
  if (got == 0) return socket_error(EPIPE);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::size_t{0};
    return socket_error(errno);
  }
  const auto bytes = static_cast<std::uint64_t>(got);
  const std::uint64_t direct = std::min(bytes, missing);
  got_bytes_ += direct;
  store_end_ += bytes - direct;
  return static_cast<std::size_t>(bytes);
}

Status Receiver::progress(const sabot_link_rule_t&) {
  SABOT_TRY(take_from_store());
  while (begun_ != posted_) {
    const std::size_t bytes = SABOT_TRY(read_more());
    if (bytes == 0) return {};
    SABOT_TRY(take_from_store());
  }
  return {};
}

std::string Receiver::doing() const {
  return "receiving message " + std::to_string(begun_) + " from " + peer().name();
}

}  // namespace sabot::link::net
