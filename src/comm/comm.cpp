// Phases of a communicator, in words, and the end of its life.
#include "comm/comm.hpp"

#include <cstdio>

namespace sabot::comm {
namespace {

std::string hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

}  // namespace

Status Comm::take_seat(Seat&& taken) {
  seat = std::move(taken);
  phase.store(Phase::kReady);
  // abort() either saw the phase and aborted the endpoint, or is seen here.
  if (!abort_requested.load()) return {};
  seat.endpoint->abort();
  return Error(Code::kAborted, "the communicator was aborted while its ranks were meeting");
}

void Comm::fail(const Error& error) {
  {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    failure_ = error;
  }
  phase.store(Phase::kFailed);
}

Error Comm::failure() const {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_ ? *failure_ : Error(Code::kInternal, "the communicator has not failed");
}

void Comm::abort() {
  abort_requested.store(true);
  const Phase now = phase.load();
  if (now != Phase::kStarting && now != Phase::kFailed) seat.endpoint->abort();
}

Status Comm::unusable() const {
  switch (phase.load()) {
    case Phase::kReady: return {};
    case Phase::kStarting:
      return Error(Code::kInvalidArgument,
                   "the communicator is still being created; wait until ncclCommGetAsyncError no "
                   "longer says ncclInProgress");
    case Phase::kFailed: return failure().context("the communicator could not be created");
    case Phase::kSuspended:
      return Error(Code::kInvalidUsage,
                   "the communicator is suspended; call ncclCommResume before using it");
    case Phase::kRevoked:
      return Error(Code::kInvalidUsage,
                   "the communicator was revoked; only split, shrink, abort and destroy are left");
    case Phase::kFinalizing:
    case Phase::kFinalized:
      return Error(Code::kInvalidUsage, "the communicator was finalized; only destroy is left");
  }
  return Error(Code::kInternal, "unknown phase");
}

Status Comm::seated() const {
  const Phase now = phase.load();
  return now == Phase::kStarting || now == Phase::kFailed ? unusable() : Status();
}

Status Comm::await_turn(std::uint64_t turn) {
  host::Waiter waiter(seat.endpoint->oversubscribed());
  while (!is_due(turn)) {
    if (seat.endpoint->aborted()) {
      return Error(Code::kAborted, "the communicator was aborted before the operation could begin");
    }
    waiter.pause();
  }
  return {};
}

Error explain_handle(ncclComm_t handle) {
  if (handle == nullptr) {
    return Error(Code::kInvalidArgument, "comm is NULL; pass a communicator");
  }
  const std::string name = "comm " + hex(handle);
  switch (process().comms.state(handle)) {
    case SlotState::kDestroyed:
      return Error(Code::kInvalidArgument, name + " was destroyed before this call");
    case SlotState::kAborted:
      return Error(Code::kInvalidArgument, name + " was aborted before this call");
    case SlotState::kFailed:
      return Error(Code::kInvalidArgument, name + " was never created: its initialisation failed");
    case SlotState::kLive:
    case SlotState::kUnused: break;
  }
  if (is_inherited_comm(handle)) {
    return Error(Code::kInvalidUsage,
                 name +
                     " belongs to the process that forked this one; create communicators after "
                     "fork");
  }
  return Error(Code::kInvalidArgument,
               name +
                   " is not a communicator of Sabot's host engine; pass a handle that "
                   "ncclCommInitRank or another creating function returned");
}

}  // namespace sabot::comm
