// Every way to the end first stops what may hold the communicator, then retires the handle; the
// body goes with the last caller inside.
#include "comm/life/finish.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "world/socket.hpp"

namespace sabot::comm::life {
namespace {

using host::Progress;

std::string seconds(std::uint64_t ns) { return std::to_string(ns / 1'000'000'000) + " s"; }

// Operations that streams still hold.
Status await_idle(Comm& comm, std::uint64_t deadline) {
  host::Waiter waiter(true);
  while (!comm.is_idle()) {
    if (comm.seat.endpoint->aborted()) return {};
    if (monotonic_ns() >= deadline) {
      return Error(Code::kTimeout, "operations were still running after " +
                                       seconds(comm.options.timeout_ns) + "; they were cut off");
    }
    waiter.pause();
  }
  return {};
}

Status await_taken(Comm& comm, std::uint64_t deadline) {
  host::Endpoint& endpoint = *comm.seat.endpoint;
  host::Waiter waiter(endpoint.oversubscribed());
  for (;;) {
    const Progress progress = endpoint.advance_finalize();
    if (progress == Progress::kDone) return {};
    if (progress == Progress::kFailed) return endpoint.async_error();
    if (monotonic_ns() >= deadline) {
      return Error(Code::kTimeout, "peers had not taken all that this rank sent after " +
                                       seconds(comm.options.timeout_ns));
    }
    waiter.pause();
  }
}

Status quiesce(Comm& comm) {
  const std::uint64_t deadline = monotonic_ns() + comm.options.timeout_ns;
  SABOT_TRY(await_idle(comm, deadline));
  return await_taken(comm, deadline);
}

void finalize_main(void* raw) {
  const std::unique_ptr<CommRef> comm(static_cast<CommRef*>(raw));
  end_finalize(**comm).ignore();  // polling finds the phase, and the endpoint's own failure
}

}  // namespace

Status check_not_aborted(const Comm& comm) {
  if (!comm.abort_requested.load()) return {};
  return Error(Code::kAborted, "the communicator was aborted by its own rank");
}

Status begin_finalize(Comm& comm) {
  Phase ready = Phase::kReady;
  if (comm.phase.compare_exchange_strong(ready, Phase::kFinalizing)) return {};
  return comm.usable();
}

Status end_finalize(Comm& comm) {
  Status outcome = quiesce(comm);
  comm.phase.store(Phase::kFinalized);
  return outcome;
}

Status finalize_behind(const CommRef& comm) {
  auto held = std::make_unique<CommRef>(comm);
  Status started = spawn("ncclCommFinalize", finalize_main, held.get());
  if (started.ok()) {
    held.release();  // NOLINT: its thread owns it now
  } else {
    comm->phase.store(Phase::kFinalized);
  }
  return started;
}

Status destroy(CommRef& comm) {
  Status outcome;
  const Phase phase = comm->phase.load();
  if (phase == Phase::kStarting) {
    comm->abort();
    await_alone(comm);
  } else if (phase == Phase::kFinalizing) {
    await_alone(comm);  // the thread that finalizes is inside
  } else if (phase != Phase::kFailed) {
    outcome = await_idle(*comm, monotonic_ns() + comm->options.timeout_ns);
    if (!outcome.ok()) comm->abort();
    const bool healthy = outcome.ok() && comm->seat.endpoint->async_error().ok();
    // What breaks from here on no longer concerns this rank.
    if (healthy && phase != Phase::kFinalized) quiesce(*comm).ignore();
  }
  const std::optional<ncclUniqueId> unused = [&] {
    const std::lock_guard<std::mutex> lock(comm->mutex);
    return std::exchange(comm->grow_id, std::nullopt);
  }();
  if (unused) {
    world::UniqueId id;
    std::copy(std::begin(unused->internal), std::end(unused->internal), id.bytes.begin());
    world::discard(id);
  }
  comm.retire(SlotState::kDestroyed);
  return outcome;
}

void await_alone(const CommRef& comm) {
  const std::uint64_t deadline = monotonic_ns() + kAbortWait_ns;
  host::Waiter waiter(true);
  // users() first: a reference that stops waiting in between is counted twice, never missed.
  while (comm.users() > 1 + comm->waiting.load()) {
    if (monotonic_ns() >= deadline) return;
    waiter.pause();
  }
}

void abort(CommRef& comm) {
  comm->abort();
  comm.retire(SlotState::kAborted);
  await_alone(comm);
}

Status revoke(const CommRef& comm) {
  SABOT_TRY(comm->seated());
  Phase seen = comm->phase.load();
  if (seen == Phase::kFinalizing || seen == Phase::kFinalized) return comm->usable();
  stop_for_shrink(*comm);
  await_alone(comm);
  return {};
}

void stop_for_shrink(Comm& comm) {
  comm.phase.store(Phase::kRevoked);
  comm.seat.endpoint->abort();
}

Status async_state(const Comm& comm) {
  switch (comm.phase.load()) {
    case Phase::kStarting:
    case Phase::kFinalizing: return Error(Code::kInProgress, "in progress");
    case Phase::kFailed: return comm.failure();
    case Phase::kRevoked:
    case Phase::kFinalized: return {};
    case Phase::kReady:
    case Phase::kSuspended: break;
  }
  if (!comm.config.blocking && comm.jobs.load() > 0) return Error(Code::kInProgress, "in progress");
  return comm.seat.endpoint->async_error();
}

}  // namespace sabot::comm::life
