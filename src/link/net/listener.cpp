// Letting strangers in, and hearing which one greets as the rank that is waited for.
#include "link/net/listener.hpp"

#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sabot::link::net {
namespace {

Result<std::uint64_t> fresh_nonce() {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
    return Error(Code::kSystem, std::string("drawing a random number: ") + std::strerror(errno));
  return nonce;
}

Address address_of_peer(int fd) {
  sockaddr_storage raw{};
  socklen_t length = sizeof raw;
  auto* pointer = reinterpret_cast<sockaddr*>(&raw);
  return ::getpeername(fd, pointer, &length) == 0 ? address_of(*pointer) : Address{};
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(Endpoint& endpoint, const Address& address) {
  Handle handle;
  handle.address = address;
  handle.address.port = 0;
  handle.listener = endpoint.self();
  handle.nonce = SABOT_TRY(fresh_nonce());
  Fd fd = SABOT_TRY(listen_on(handle.address));
  return std::unique_ptr<Listener>(new Listener(endpoint, std::move(fd), handle));
}

Status Listener::let_in() {
  for (std::size_t i = 0; i < kStrangersMax; ++i) {
    Fd fd = SABOT_TRY(next_connection(fd_.get()));
    if (!fd.valid()) return {};
    if (strangers_.size() == kStrangersMax) strangers_.erase(strangers_.begin());
    strangers_.push_back({std::move(fd), monotonic_ns() + kGreetingPatienceNs, 0, {}});
  }
  return {};
}

Listener::Standing Listener::hear(Stranger& stranger) {
  while (stranger.got < kGreetingBytes) {
    const ssize_t got = ::recv(stranger.fd.get(), stranger.bytes.data() + stranger.got,
                               kGreetingBytes - stranger.got, MSG_DONTWAIT);
    if (got > 0) {
      stranger.got += static_cast<std::size_t>(got);
      continue;
    }
    const bool may_come = got < 0 && (errno == EAGAIN || errno == EINTR);
    return may_come && monotonic_ns() < stranger.deadline_ns ? Standing::kWaiting : Standing::kGone;
  }
  const Result<Greeting> greeting = read_greeting(stranger.bytes);
  if (!greeting.ok() || greeting->nonce != handle_.nonce) return Standing::kGone;
  greeting_ = *greeting;
  const sabot_link_rule_t rule = endpoint_.rule_for(greeting_.connector);
  if (greeting_.is_cut) {
    cut_text_ = "that rank has cut the link by a fault";
    return Standing::kCut;
  }
  if ((rule.effects & SABOT_LINK_CUT) != 0) {
    cut_text_ = "the link was cut by the fault '" + std::string(rule.fault) + "'";
    return Standing::kCut;
  }
  // Greeted, but nothing passes: it stays where it is, and its deadline does not count.
  return (rule.effects & SABOT_LINK_PARTITION) != 0 ? Standing::kWaiting : Standing::kGreeted;
}

Result<std::unique_ptr<Receiver>> Listener::accept() {
  SABOT_TRY(let_in());
  for (std::size_t i = 0; i < strangers_.size();) {
    const Standing standing = hear(strangers_[i]);
    if (standing == Standing::kWaiting) {
      ++i;
      continue;
    }
    Fd fd = std::move(strangers_[i].fd);
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (standing == Standing::kGone) continue;
    const Peer peer{greeting_.connector, address_of_peer(fd.get())};
    if (standing == Standing::kCut) {
      close_with_reset(fd);
      return Error(Code::kRemote, "accepting " + peer.name() + ": " + cut_text_)
          .at_rank(endpoint_.self().world_rank)
          .about_peer(peer.identity.world_rank);
    }
    return std::make_unique<Receiver>(endpoint_.connection(std::move(fd), peer));
  }
  return std::unique_ptr<Receiver>();
}

}  // namespace sabot::link::net
