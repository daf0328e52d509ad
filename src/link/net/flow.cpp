// The ring of requests, and how a connection fails.
#include "link/net/flow.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sabot::link::net {

std::string Peer::name() const {
  const std::string who = identity.world_rank >= 0 ? "rank " + std::to_string(identity.world_rank)
                                                   : "process " + std::to_string(identity.process);
  return who + " (" + to_text(address) + ")";
}

void Roster::add(int world_rank, int fd) {
  const std::lock_guard lock(mutex_);
  open_.emplace(world_rank, fd);
}

void Roster::remove(int world_rank, int fd) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = open_.equal_range(world_rank);
  for (auto entry = begin; entry != end; ++entry) {
    if (entry->second != fd) continue;
    open_.erase(entry);
    return;
  }
}

void Roster::end_all(int world_rank) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = open_.equal_range(world_rank);
  for (auto entry = begin; entry != end; ++entry) ::shutdown(entry->second, SHUT_RDWR);
}

Flow::Flow(Connection connection)
    : connection_(std::move(connection)),
      rule_(*connection_.rules, connection_.peer.identity.world_rank) {
  connection_.roster->add(connection_.peer.identity.world_rank, connection_.fd.get());
}

Flow::~Flow() { leave_roster(); }

void Flow::leave_roster() {
  if (connection_.fd.valid())
    connection_.roster->remove(connection_.peer.identity.world_rank, connection_.fd.get());
}

Request* Flow::post(void* data, std::uint64_t bytes) {
  Request& request = at(posted_);
  if (request.is_used) return nullptr;
  request = {this, static_cast<std::byte*>(data), bytes, 0, true, false};
  ++posted_;
  return &request;
}

Result<bool> Flow::test(Request& request, std::uint64_t* bytes) {
  if (!request.is_used)
    return Error(Code::kInvalidUsage, "testing a request that was done already (" + doing() + ")");
  if (!request.is_done) {
    Status status = advance();
    // What was moved before the connection failed is moved all the same.
    if (!request.is_done && !status.ok()) return std::move(status).error();
    if (!request.is_done) return false;
  }
  if (bytes != nullptr) *bytes = request.bytes;
  request.is_used = false;
  return true;
}

Status Flow::advance() {
  if (has_failed_) return failure();
  const sabot_link_rule_t& rule = rule_.now();
  Status status;
  if ((rule.effects & SABOT_LINK_CUT) != 0) {
    status = remote_error("the link was cut by the fault '" + std::string(rule.fault) + "'");
    connection_.roster->end_all(connection_.peer.identity.world_rank);
  } else if ((rule.effects & SABOT_LINK_PARTITION) == 0) {
    status = progress(rule);
  }
  if (status.ok()) return {};
  has_failed_ = true;
  failure_code_ = status.error().code();
  failure_text_ = status.error().message();
  leave_roster();
  close_with_reset(connection_.fd);
  return failure();
}

Error Flow::failure() const { return Error(failure_code_, failure_text_); }

Error Flow::remote_error(const std::string& what) const {
  const int rank = connection_.world_rank;
  const std::string prefix = rank >= 0 ? "rank " + std::to_string(rank) + " " : "";
  return Error(Code::kRemote, prefix + doing() + ": " + what)
      .at_rank(rank)
      .about_peer(peer().identity.world_rank);
}

Error Flow::socket_error(int number) const {
  switch (number) {
    case ECONNRESET:
    case EPIPE: return remote_error("the peer closed the connection, or its process is gone");
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return remote_error(std::string("the peer cannot be reached any more (") +
                          std::strerror(number) + ")");
    default: return Error(Code::kSystem, doing() + ": " + std::strerror(number));
  }
}

}  // namespace sabot::link::net
