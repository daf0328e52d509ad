// Sending, receiving and ending of messages; matching is in matching.cpp.
#include "pytorch/mailbox/messages.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace sabot::pytorch {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// A message up to this goes out in one piece with its header; copying so much costs less than the
// second place that a piece of its own would take in the channel.
constexpr std::size_t kJoinedBytesMax = 4096;
// With a longer message, as much as fits into the header's own cache line.
constexpr std::size_t kTasteBytes = 32;
// One place of the channel. A turn of a direction is two of them, or so many messages; more would
// keep other threads and the other direction waiting.
constexpr std::size_t kPieceBytesMax = 256 * 1024;
constexpr std::size_t kTurnBytes = 2 * kPieceBytesMax;
constexpr int kTurnPiecesMax = 16;

std::string without_prefix(const char* text) {
  std::string all = text == nullptr ? "" : text;
  for (const char* prefix : {"sabot_channel_put: ", "sabot_channel_take: "}) {
    if (all.rfind(prefix, 0) == 0) return all.substr(std::strlen(prefix));
  }
  return all;
}

}  // namespace

std::string Message::describe() const {
  const std::string what = std::to_string(bytes) + " bytes with tag " + std::to_string(tag);
  if (sends) return "sending " + what + " to rank " + std::to_string(peer);
  return "receiving " + what + " from " +
         (peer == kAnySource ? "any rank" : "rank " + std::to_string(peer));
}

Messages::Messages(const ByteChannels& channels, ncclComm_t comm, int rank, int size,
                   TypeName type_name)
    : channels_(channels),
      comm_(comm),
      rank_(rank),
      size_(size),
      type_name_(type_name),
      peers_(static_cast<std::size_t>(size)),
      next_deadline_ns_(kNever) {}

void Messages::end(std::unique_ptr<Message> message, Delivery delivery) {
  --open_;
  ended_.push_back({std::move(message), std::move(delivery)});
}

void Messages::end_failed(std::unique_ptr<Message> message, ncclResult_t code,
                          const std::string& text) {
  std::string whole = message->describe() + ": " + text;
  end(std::move(message), {Delivery::Kind::kFailed, code, std::move(whole)});
}

void Messages::end_timed_out(std::unique_ptr<Message> message, std::uint64_t now_ns) {
  std::string text = message->describe() + " timed out after " +
                     std::to_string((now_ns - message->started_ns) / 1'000'000) + " ms; " +
                     std::to_string(message->moved) + " bytes had moved";
  end(std::move(message), {Delivery::Kind::kTimeout, ncclRemoteError, std::move(text)});
}

bool Messages::is_late(const Message& message, std::uint64_t now_ns) {
  if (message.deadline_ns == 0) return false;
  if (message.deadline_ns <= now_ns) return true;
  next_deadline_ns_ = std::min(next_deadline_ns_, message.deadline_ns);
  return false;
}

std::vector<Messages::Ended> Messages::take_ended() { return std::exchange(ended_, {}); }

void Messages::start(std::unique_ptr<Message> message, std::uint64_t now_ns) {
  ++open_;
  message->number = ++posted_;
  message->started_ns = now_ns;
  if (is_broken_) return end_failed(std::move(message), broken_code_, broken_text_);
  if (message->deadline_ns != 0)
    next_deadline_ns_ = std::min(next_deadline_ns_, message->deadline_ns);
  if (!message->sends) return start_receive(std::move(message));
  Peer& to = peer(message->peer);
  if (to.of_sends.is_lost) return end_failed(std::move(message), to.of_sends.code, to.of_sends.why);
  to.sends.push_back(std::move(message));
}

bool Messages::advance(std::uint64_t now_ns) {
  if (now_ns >= next_deadline_ns_) expire(now_ns);
  if (is_idle()) return false;
  bool has_moved = false;
  for (int rank = 0; rank < size_; ++rank) has_moved |= advance_sends(rank);
  const int first = first_source_;
  for (int i = 0; i < size_; ++i) has_moved |= advance_receives((first + i) % size_);
  return has_moved;
}

bool Messages::advance_sends(int rank) {
  Peer& to = peer(rank);
  std::size_t turn_bytes = 0;
  for (int pieces = 0; pieces < kTurnPiecesMax && turn_bytes < kTurnBytes; ++pieces) {
    if (to.sends.empty()) break;
    Message& message = *to.sends.front();
    const std::size_t left = message.bytes - message.moved;
    const bool begins = message.has_header_left;
    const std::size_t moved =
        begins ? put_first(rank, message)
               : put(rank, message.data + message.moved, std::min(left, kPieceBytesMax));
    if (moved == 0) break;  // the message may be gone
    turn_bytes += moved;
    message.has_header_left = false;
    message.moved += begins ? moved - kHeaderBytes : moved;
    if (message.moved < message.bytes) continue;
    std::unique_ptr<Message> sent = std::move(to.sends.front());
    to.sends.pop_front();
    end(std::move(sent), {});
  }
  return turn_bytes != 0;
}

// The header and what goes well with it; as a whole or not at all, since it is so short.
std::size_t Messages::put_first(int rank, const Message& message) {
  const std::size_t joined =
      message.bytes <= kJoinedBytesMax ? message.bytes : std::min(message.bytes, kTasteBytes);
  std::array<std::byte, kHeaderBytes + kJoinedBytesMax> piece;
  const Header header{message.tag, message.type, message.bytes};
  std::memcpy(piece.data(), &header, kHeaderBytes);
  if (joined != 0) std::memcpy(piece.data() + kHeaderBytes, message.data, joined);
  return put(rank, piece.data(), kHeaderBytes + joined);
}

bool Messages::advance_receives(int source) {
  std::size_t turn_bytes = 0;
  for (int pieces = 0; pieces < kTurnPiecesMax && turn_bytes < kTurnBytes; ++pieces) {
    const std::size_t moved = reads_from(source) ? read(source) : 0;
    if (moved == 0) break;
    turn_bytes += moved;
  }
  return turn_bytes != 0;
}

// Reads on while a receive may want what comes, or has it half, or where it must be cleared away.
bool Messages::reads_from(int source) {
  Peer& from = peer(source);
  if (from.of_receives.is_lost) return false;
  return from.incoming.receive != nullptr || from.incoming.is_discarded || !from.receives.empty() ||
         !from_any_.empty();
}

std::size_t Messages::read(int source) {
  Peer& from = peer(source);
  Incoming& incoming = from.incoming;
  if (!incoming.is_open()) {
    const std::size_t moved =
        take(source, incoming.raw.data() + incoming.raw_bytes, kHeaderBytes - incoming.raw_bytes);
    incoming.raw_bytes += moved;
    if (moved != 0 && incoming.raw_bytes == kHeaderBytes) begin_incoming(source);
    return moved;
  }
  std::byte* to = incoming.is_held ? from.held.back().data.get() + incoming.moved : waste_.data();
  if (incoming.receive != nullptr) to = incoming.receive->data + incoming.moved;
  std::size_t bytes = std::min(incoming.header.bytes - incoming.moved, kPieceBytesMax);
  if (incoming.is_discarded) bytes = std::min(bytes, waste_.size());
  const std::size_t moved = take(source, to, bytes);
  // A failure of take() may have closed the message.
  if (moved == 0 || !incoming.is_open()) return moved;
  incoming.moved += moved;
  if (incoming.receive != nullptr) incoming.receive->moved = incoming.moved;
  if (incoming.moved == incoming.header.bytes) end_incoming(source);
  return moved;
}

std::size_t Messages::put(int rank, const void* data, std::size_t bytes) {
  std::size_t moved = 0;
  const ncclResult_t result = channels_.put(comm_, rank, data, bytes, &moved);
  if (result == ncclSuccess) [[likely]]
    return moved;
  std::string text;
  if (explain(result, text)) lose_sends(rank, result, text);
  return 0;
}

std::size_t Messages::take(int source, void* data, std::size_t bytes) {
  std::size_t moved = 0;
  const ncclResult_t result = channels_.take(comm_, source, data, bytes, &moved);
  if (result == ncclSuccess) [[likely]]
    return moved;
  std::string text;
  if (explain(result, text)) lose_receives(source, result, text);
  return 0;
}

bool Messages::explain(ncclResult_t code, std::string& text) {
  text = without_prefix(channels_.last_error(comm_));
  ncclResult_t state = ncclSuccess;
  if (channels_.async_error(comm_, &state) == ncclSuccess && state == ncclSuccess) return true;
  fail_all(code, text);
  return false;
}

void Messages::lose_sends(int rank, ncclResult_t code, const std::string& text) {
  Peer& to = peer(rank);
  if (to.of_sends.is_lost) return;
  to.of_sends = {true, code, text};
  for (auto& message : std::exchange(to.sends, {})) end_failed(std::move(message), code, text);
}

void Messages::lose_receives(int rank, ncclResult_t code, const std::string& text) {
  Peer& from = peer(rank);
  if (from.of_receives.is_lost) return;
  from.of_receives = {true, code, text};
  for (auto& message : std::exchange(from.receives, {})) end_failed(std::move(message), code, text);
  Incoming incoming = std::exchange(from.incoming, {});
  if (incoming.receive != nullptr) end_failed(std::move(incoming.receive), code, text);
  if (incoming.is_discarded) --discards_;
  if (incoming.is_held) {
    held_bytes_ -= from.held.back().header.bytes;
    from.held.pop_back();
  }
  if (!is_alone()) return;
  for (auto& message : std::exchange(from_any_, {})) end_alone(std::move(message));
}

bool Messages::is_alone() const {
  int left = size_ == 1 ? 1 : 0;  // alone from the beginning: its own messages are all there are
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && !peers_[static_cast<std::size_t>(other)].of_receives.is_lost) ++left;
  }
  return left == 0;
}

void Messages::end_alone(std::unique_ptr<Message> message) {
  const Loss& one = peer(rank_ == 0 ? size_ - 1 : 0).of_receives;
  end_failed(std::move(message), one.code, "no other rank is left that could send: " + one.why);
}

void Messages::fail_all(ncclResult_t code, const std::string& text) {
  if (is_broken_) return;
  is_broken_ = true;
  broken_code_ = code;
  broken_text_ = text;
  for (auto& message : std::exchange(from_any_, {})) end_failed(std::move(message), code, text);
  for (int rank = 0; rank < size_; ++rank) {
    lose_sends(rank, code, text);
    lose_receives(rank, code, text);
  }
}

}  // namespace sabot::pytorch
