// A rank's side of the rendezvous: finds the others, learns who they are, and agrees to start.
//
// join() returns when every rank of the world is known to every other; confirm() then makes success
// or failure common: either all ranks start or none does, and all say why. Both block, bounded by
// the timeout, and end early when the interruption says so. One rank brings a descriptor (the
// shared segment) that all receive. Thread-safe between ranks of one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "link/liveness.hpp"
#include "world/life.hpp"
#include "world/socket.hpp"
#include "world/unique_id.hpp"

namespace sabot::world {

struct JoinRequest {
  int rank = 0;
  int ranks = 1;
  std::uint32_t api_version = 0;
  std::uint64_t timeout_ns = 120'000'000'000;
  int gift = -1;                         // rank 0's descriptor for all, borrowed; -1 = none
  std::function<Status()> interruption;  // an error ends the waiting with it; may be empty
};

class Membership {
 public:
  // ranks of this process alone, without any rendezvous.
  static Result<Membership> within_process(int ranks);

  const WorldName& name() const { return name_; }
  // By rank.
  const std::vector<Life>& members() const { return members_; }
  // Rank 0's descriptor, on every rank; not valid where none was brought.
  const Fd& gift() const { return gift_; }

  // Tells the others how this rank's own preparations went, and waits for theirs. Call once.
  Status confirm(const Status& mine);

 private:
  friend class Joiner;
  WorldName name_{};
  std::vector<Life> members_;
  Fd gift_;
  Fd server_;  // not valid: nobody to agree with
  JoinRequest request_;
  std::uint64_t deadline_ns_ = 0;
};

// Errors name this rank and, where known, the rank that is the reason.
Result<Membership> join(const UniqueId& id, const JoinRequest& request);
// At a rendezvous opened by open_named_rendezvous(); waits for it to open.
Result<Membership> join_named(const WorldName& name, const JoinRequest& request);

// Tells a world that this rank will not come, so that the others need not wait for it. Best effort.
void report_failure(const UniqueId& id, const JoinRequest& request, const Error& why);
// Ends the rendezvous of an id that nobody will use. Best effort.
void discard(const UniqueId& id);

// The liveness seam over the members of one world; keeps a copy of their lives.
class MemberLiveness final : public link::Liveness {
 public:
  explicit MemberLiveness(std::vector<Life> members) : members_(std::move(members)) {}
  std::optional<link::DeadPeer> check() override { return check_except(0); }
  std::optional<link::DeadPeer> check_except(std::uint64_t ignored) override;

 private:
  std::vector<Life> members_;
};

}  // namespace sabot::world
