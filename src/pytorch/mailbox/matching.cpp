// Which message goes to which receive, and what becomes of messages and receives that find no
// partner in time.
#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "pytorch/mailbox/messages.hpp"

namespace sabot::pytorch {
namespace {

constexpr std::size_t kWasteBytes = 64 * 1024;

// A message that has begun must be completed, or the peer would take what follows for its rest: a
// copy of the rest goes on without its sender. Null if there is no memory for it.
std::unique_ptr<Message> copy_of_rest(const Message& begun) {
  const std::size_t bytes = begun.bytes - begun.moved;
  auto rest = std::make_unique<Message>();
  rest->kept.reset(new (std::nothrow) std::byte[bytes]);
  if (rest->kept == nullptr) return nullptr;
  std::memcpy(rest->kept.get(), begun.data + begun.moved, bytes);
  rest->sends = true;
  rest->peer = begun.peer;
  rest->has_header_left = false;
  rest->bytes = bytes;
  rest->data = rest->kept.get();
  return rest;
}

}  // namespace

bool Messages::suits(const Header& header, const Message& receive) const {
  return header.bytes == receive.bytes && header.type == receive.type;
}

std::string Messages::mismatch(const Header& header, const Message& receive, int source) const {
  const auto shape = [this](std::uint64_t bytes, int type) {
    const std::string name =
        type_name_ == nullptr ? "type " + std::to_string(type) : std::string(type_name_(type));
    return std::to_string(bytes) + " bytes of " + name;
  };
  return "rank " + std::to_string(source) + " sends " + shape(header.bytes, header.type) +
         " with tag " + std::to_string(header.tag) + " to rank " + std::to_string(rank_) +
         ", which receives " + shape(receive.bytes, receive.type) + " from " +
         (receive.peer == kAnySource ? "any rank" : "it");
}

void Messages::start_receive(std::unique_ptr<Message> message) {
  int source = message->peer;
  std::list<Held>::iterator held;
  if (find_held(*message, source, held)) return take_held(std::move(message), source, held);
  if (message->peer != kAnySource) {
    Peer& from = peer(source);
    const Loss& loss = from.of_receives;
    if (loss.is_lost) return end_failed(std::move(message), loss.code, loss.why);
    from.receives.push_back(std::move(message));
  } else if (is_alone()) {
    end_alone(std::move(message));
  } else {
    from_any_.push_back(std::move(message));
  }
}

// The one that arrived first, of those that have come before anybody asked for them.
bool Messages::find_held(const Message& receive, int& source, std::list<Held>::iterator& found) {
  const bool any = receive.peer == kAnySource;
  std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
  for (int rank = any ? 0 : receive.peer; rank < (any ? size_ : receive.peer + 1); ++rank) {
    std::list<Held>& held = peer(rank).held;
    const auto first = std::find_if(held.begin(), held.end(),
                                    [&](const Held& one) { return one.header.tag == receive.tag; });
    if (first == held.end() || first->arrival >= earliest) continue;
    earliest = first->arrival;
    source = rank;
    found = first;
  }
  return earliest != std::numeric_limits<std::uint64_t>::max();
}

void Messages::take_held(std::unique_ptr<Message> receive, int source,
                         std::list<Held>::iterator held) {
  Peer& from = peer(source);
  Incoming& incoming = from.incoming;
  const bool is_coming = incoming.is_held && std::next(held) == from.held.end();
  const Header header = held->header;
  const std::size_t moved = is_coming ? incoming.moved : header.bytes;
  const bool fits = suits(header, *receive);
  if (fits && moved != 0) std::memcpy(receive->data, held->data.get(), moved);
  held_bytes_ -= header.bytes;
  from.held.erase(held);
  if (is_coming) incoming.is_held = false;
  if (!fits) {
    std::string text = mismatch(header, *receive, source);
    end(std::move(receive), {Delivery::Kind::kMismatch, ncclInvalidUsage, std::move(text), source});
    if (is_coming) discard(from);
    return;
  }
  receive->moved = moved;
  if (!is_coming) return end(std::move(receive), {Delivery::Kind::kDone, ncclSuccess, "", source});
  incoming.receive = std::move(receive);
}

// The header is there: finds out what to do with the rest.
void Messages::begin_incoming(int source) {
  Peer& from = peer(source);
  Incoming& incoming = from.incoming;
  std::memcpy(&incoming.header, incoming.raw.data(), kHeaderBytes);
  incoming.raw_bytes = 0;
  incoming.moved = 0;
  std::unique_ptr<Message> receive = take_matching(source, incoming.header.tag);
  if (receive == nullptr) {
    hold(source);
  } else if (suits(incoming.header, *receive)) {
    incoming.receive = std::move(receive);
  } else {
    std::string text = mismatch(incoming.header, *receive, source);
    end(std::move(receive), {Delivery::Kind::kMismatch, ncclInvalidUsage, std::move(text), source});
    discard(from);
  }
  if (incoming.is_open() && incoming.header.bytes == 0) end_incoming(source);
}

// The receive that was posted first, of this source's and of those from any.
std::unique_ptr<Message> Messages::take_matching(int source, int tag) {
  const auto matches = [tag](const std::unique_ptr<Message>& one) { return one->tag == tag; };
  Receives& own = peer(source).receives;
  const auto from_it = std::find_if(own.begin(), own.end(), matches);
  const auto from_any = std::find_if(from_any_.begin(), from_any_.end(), matches);
  const bool has_own = from_it != own.end();
  const bool has_any = from_any != from_any_.end();
  if (!has_own && !has_any) return nullptr;
  const bool takes_any = has_any && (!has_own || (*from_any)->number < (*from_it)->number);
  Receives& list = takes_any ? from_any_ : own;
  const auto found = takes_any ? from_any : from_it;
  if (takes_any) first_source_ = (source + 1) % size_;
  std::unique_ptr<Message> receive = std::move(*found);
  list.erase(found);
  return receive;
}

void Messages::hold(int source) {
  Peer& from = peer(source);
  const std::size_t bytes = from.incoming.header.bytes;
  std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[bytes]);
  if (data == nullptr) {
    return fail_all(ncclSystemError, "no memory for a message of " + std::to_string(bytes) +
                                         " bytes from rank " + std::to_string(source) +
                                         " that nobody has asked for yet");
  }
  from.held.push_back({from.incoming.header, ++arrived_, std::move(data)});
  from.incoming.is_held = true;
  held_bytes_ += bytes;
}

void Messages::discard(Peer& from) {
  if (from.incoming.moved == from.incoming.header.bytes) return;
  waste_.resize(kWasteBytes);
  from.incoming.is_discarded = true;
  ++discards_;
}

void Messages::end_incoming(int source) {
  Incoming& incoming = peer(source).incoming;
  if (incoming.is_discarded) --discards_;
  incoming.is_discarded = false;
  incoming.is_held = false;
  if (incoming.receive == nullptr) return;
  end(std::move(incoming.receive), {Delivery::Kind::kDone, ncclSuccess, "", source});
}

void Messages::expire(std::uint64_t now_ns) {
  next_deadline_ns_ = std::numeric_limits<std::uint64_t>::max();
  expire_receives(from_any_, now_ns);
  for (Peer& one : peers_) {
    expire_sends(one, now_ns);
    expire_receives(one.receives, now_ns);
    if (one.incoming.receive == nullptr || !is_late(*one.incoming.receive, now_ns)) continue;
    end_timed_out(std::move(one.incoming.receive), now_ns);
    discard(one);
  }
}

void Messages::expire_sends(Peer& to, std::uint64_t now_ns) {
  for (auto at = to.sends.begin(); at != to.sends.end();) {
    if (!is_late(**at, now_ns)) {
      ++at;
    } else if ((*at)->has_header_left) {
      std::unique_ptr<Message> late = std::move(*at);
      at = to.sends.erase(at);
      end_timed_out(std::move(late), now_ns);
    } else {
      std::unique_ptr<Message> rest = copy_of_rest(**at);
      // Without memory for the copy it has to go on from its own.
      if (rest != nullptr) {
        ++open_;
        end_timed_out(std::exchange(*at, std::move(rest)), now_ns);
      }
      ++at;
    }
  }
}

void Messages::expire_receives(Receives& receives, std::uint64_t now_ns) {
  for (auto at = receives.begin(); at != receives.end();) {
    if (!is_late(**at, now_ns)) {
      ++at;
      continue;
    }
    std::unique_ptr<Message> late = std::move(*at);
    at = receives.erase(at);
    end_timed_out(std::move(late), now_ns);
  }
}

}  // namespace sabot::pytorch
