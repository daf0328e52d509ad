// Connecting step by step: the socket, the greeting, and again where nobody listens yet.
#include "link/net/dialer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sabot::link::net {
namespace {

// What may pass by itself: the listener's backlog is full, the route is not there yet.
bool is_worth_a_retry(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT ||
         error == EHOSTUNREACH || error == ENETUNREACH || error == EPIPE;
}

}  // namespace

std::list<Dialer::Attempt>::iterator Dialer::find(const void* key, const Handle& handle) {
  const std::uint64_t now = monotonic_ns();
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    if (attempt->key == key && attempt->handle.nonce == handle.nonce) {
      attempt->asked_ns = now;
      return attempt;
    }
    const bool is_forgotten =
        attempt->key == key || attempt->asked_ns + patience_.forgotten_ns < now;
    attempt = is_forgotten ? attempts_.erase(attempt) : std::next(attempt);
  }
  if (attempts_.size() == kAttemptsMax) return attempts_.end();
  Attempt attempt;
  attempt.key = key;
  attempt.handle = handle;
  attempt.asked_ns = now;
  attempt.deadline_ns = now + patience_.connect_ns;
  attempts_.push_back(std::move(attempt));
  return std::prev(attempts_.end());
}

Result<std::unique_ptr<Sender>> Dialer::connect(const void* key,
                                                std::span<const std::byte, kHandleBytes> bytes) {
  const Handle handle = SABOT_TRY(read_handle(bytes));
  const std::lock_guard lock(mutex_);
  const auto attempt = find(key, handle);
  if (attempt == attempts_.end())
    return Error(Code::kSystem, "connecting to " + Peer{handle.listener, handle.address}.name() +
                                    ": " + std::to_string(kAttemptsMax) +
                                    " connections are being made already");
  Result<bool> stands = advance(*attempt, attempt->asked_ns);
  if (stands.ok() && !*stands) return std::unique_ptr<Sender>();
  Fd fd = std::move(attempt->fd);
  attempts_.erase(attempt);
  if (!stands.ok()) return std::move(stands).error();
  return std::make_unique<Sender>(
      endpoint_.connection(std::move(fd), {handle.listener, handle.address}));
}

std::size_t Dialer::attempt_count() {
  const std::lock_guard lock(mutex_);
  return attempts_.size();
}

Error Dialer::unreachable(const Attempt& attempt, const std::string& why) const {
  const Peer peer{attempt.handle.listener, attempt.handle.address};
  return Error(Code::kRemote, "connecting to " + peer.name() + ": " + why)
      .at_rank(endpoint_.self().world_rank)
      .about_peer(peer.identity.world_rank);
}

Result<bool> Dialer::try_again(Attempt& attempt, std::uint64_t now, const std::string& why) {
  if (now >= attempt.deadline_ns) return unreachable(attempt, why);
  attempt.fd.reset();
  attempt.is_connected = false;
  attempt.greeted = 0;
  attempt.retry_at_ns = now + patience_.retry_ns;
  return false;
}

Result<bool> Dialer::advance(Attempt& attempt, std::uint64_t now) {
  const sabot_link_rule_t rule = endpoint_.rule_for(attempt.handle.listener);
  if ((rule.effects & SABOT_LINK_CUT) != 0 && attempt.cut_text.empty()) {
    attempt.cut_text = "the link was cut by the fault '" + std::string(rule.fault) + "'";
    attempt.deadline_ns = std::min(attempt.deadline_ns, now + patience_.farewell_ns);
  }
  if ((rule.effects & SABOT_LINK_PARTITION) != 0 && attempt.cut_text.empty()) {
    if (now < attempt.deadline_ns) return false;
    return unreachable(attempt, "no answer in time; the fault '" + std::string(rule.fault) +
                                    "' lets nothing pass");
  }
  const Result<bool> stands = go_on(attempt, now);
  if (attempt.cut_text.empty()) return stands.ok() ? Result<bool>(*stands) : stands.error();
  // The listener has been told, or cannot be.
  if (!stands.ok() || *stands) return unreachable(attempt, attempt.cut_text);
  return false;
}

Result<bool> Dialer::go_on(Attempt& attempt, std::uint64_t now) {
  if (now < attempt.retry_at_ns) return false;
  if (!attempt.fd.valid()) {
    Result<Fd> fd = begin_to_connect(attempt.handle.address);
    if (!fd.ok() && fd.error().code() != Code::kRemote) return std::move(fd).error();
    if (!fd.ok()) return try_again(attempt, now, fd.error().message());
    attempt.fd = std::move(fd).value();
  }
  if (!attempt.is_connected) {
    const int error = connection_error(attempt.fd.get());
    if (error == EINPROGRESS)
      return now < attempt.deadline_ns ? Result<bool>(false)
                                       : unreachable(attempt, "no answer in time");
    if (error != 0 && !is_worth_a_retry(error))
      return Error(Code::kSystem, "connecting to " + to_text(attempt.handle.address) + ": " +
                                      std::strerror(error));
    if (error != 0) return try_again(attempt, now, std::strerror(error));
    attempt.is_connected = true;
  }
  return greet(attempt, now);
}

Result<bool> Dialer::greet(Attempt& attempt, std::uint64_t now) {
  const auto greeting =
      write_greeting({endpoint_.self(), attempt.handle.nonce, !attempt.cut_text.empty()});
  const ssize_t sent = ::send(attempt.fd.get(), greeting.data() + attempt.greeted,
                              greeting.size() - attempt.greeted, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) return try_again(attempt, now, std::strerror(errno));
  attempt.greeted += static_cast<std::size_t>(sent);
  return attempt.greeted == greeting.size();
}

}  // namespace sabot::link::net
