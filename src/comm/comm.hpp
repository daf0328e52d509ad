// One rank's communicator: its end of the shared segment, its phase, and the order of its work.
//
// Work on a communicator runs in the order in which it was issued, one batch at a time, whatever
// thread or stream drives it: every batch takes a turn when it is issued, waits for it, and ends
// it. What is set before the phase becomes kReady never changes afterwards and is read without a
// lock.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "comm/comm_config.hpp"
#include "comm/options.hpp"
#include "comm/process.hpp"
#include "comm/redop.hpp"
#include "engine/host/endpoint.hpp"
#include "link/segment.hpp"
#include "world/join.hpp"

namespace sabot::comm {

enum class Phase : std::uint8_t {
  kStarting,  // its ranks are meeting
  kReady,
  kFailed,     // never became ready; failure() says why
  kSuspended,  // by ncclCommSuspend
  kRevoked,    // by ncclCommRevoke, or by a shrink that aborted it: only children and an end
  kFinalizing,
  kFinalized,
};

// What a communicator consists of once its ranks have met.
struct Seat {
  int rank = 0;
  int ranks = 1;
  world::WorldName world{};
  std::vector<world::Life> members;
  std::unique_ptr<world::MemberLiveness> liveness;  // outlives the endpoint
  std::shared_ptr<link::Segment> segment;
  std::unique_ptr<host::Endpoint> endpoint;
};

class Comm {
 public:
  Comm(const Options& engine_options, CommConfig comm_config)
      : options(engine_options), config(std::move(comm_config)) {}

  const Options& options;
  CommConfig config;
  int device = 0;  // as given to ncclCommInitAll; without devices there is only number 0

  // Set once, before kReady.
  Seat seat;

  std::atomic<Phase> phase{Phase::kStarting};
  std::atomic<bool> abort_requested{false};
  std::atomic<int> jobs{0};                // splits and the like running on threads of ours
  std::atomic<std::uint64_t> children{0};  // splits, shrinks and grows so far

  RedOps redops;

  // Makes the seat taken: kReady, unless the communicator was aborted meanwhile.
  Status take_seat(Seat&& taken);
  void fail(const Error& error);
  Error failure() const;
  // Ends all that runs or waits on it, now. Any thread, any phase.
  void abort();

  // ok if operations may be issued; else why not.
  Status usable() const {
    if (phase.load() == Phase::kReady) [[likely]]
      return {};
    return unusable();
  }
  // ok if it has a seat, whatever may be issued on it: queries, children.
  Status seated() const;

  // Turns. issue() gives the next one; it is due when all before it have ended.
  std::uint64_t issue() { return issued_.fetch_add(1); }
  bool is_due(std::uint64_t turn) const { return ended_.load() == turn; }
  void end_turn() { ended_.fetch_add(1); }
  bool is_idle() const { return ended_.load() == issued_.load(); }
  // Waits for a turn; aborted if the communicator is.
  Status await_turn(std::uint64_t turn);

  // References that merely wait in a stream or a group, and so are not inside a call.
  std::atomic<std::uint32_t> waiting{0};

  // Buffers and windows that the application registered: handle → address. Guarded by mutex.
  std::mutex mutex;
  std::map<const void*, void*> buffers;
  std::map<const void*, void*> windows;
  std::optional<ncclUniqueId> grow_id;  // made by ncclCommGetUniqueId, not yet used

 private:
  Status unusable() const;

  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> ended_{0};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
};

using CommRef = SlotTable<Comm>::Ref;

// The communicator behind a handle, for the duration of a call. Empty if there is none; then
// explain_handle() says why.
inline CommRef enter(ncclComm_t handle) { return process().comms.enter(handle); }
Error explain_handle(ncclComm_t handle);

inline ncclComm_t handle_of(const CommRef& comm) { return static_cast<ncclComm_t>(comm.handle()); }

}  // namespace sabot::comm
