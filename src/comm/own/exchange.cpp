// The C functions of sabot/exchange.h: byte channels, the failure of all ranks, waiting.
//
// They reach the endpoint without a turn: bytes do not queue behind operations of the communicator,
// or a message could not overtake a collective that waits for it.
#include <sabot/exchange.h>

#include <new>
#include <string>

#include "comm/comm.hpp"
#include "comm/report.hpp"

namespace sabot::comm {
namespace {

// Any phase with a seat; what may be done in it is up to the caller.
Result<CommRef> enter_seated(ncclComm_t handle) {
  CommRef comm = enter(handle);
  if (!comm) return explain_handle(handle);
  SABOT_TRY(comm->seated());
  return comm;
}

Result<std::size_t> put(ncclComm_t handle, int peer, const void* data, std::size_t bytes) {
  const CommRef comm = enter(handle);
  if (!comm) return explain_handle(handle);
  SABOT_TRY(comm->usable());
  if (data == nullptr && bytes != 0) return Error(Code::kInvalidArgument, "data is NULL");
  return comm->seat.endpoint->put_bytes(peer, {static_cast<const std::byte*>(data), bytes});
}

Result<std::size_t> take(ncclComm_t handle, int peer, void* data, std::size_t bytes) {
  const CommRef comm = enter(handle);
  if (!comm) return explain_handle(handle);
  SABOT_TRY(comm->usable());
  if (data == nullptr && bytes != 0) return Error(Code::kInvalidArgument, "data is NULL");
  return comm->seat.endpoint->take_bytes(peer, {static_cast<std::byte*>(data), bytes});
}

ncclResult_t answer(const char* function, const Result<std::size_t>& result, std::size_t* moved) {
  *moved = result.ok() ? *result : 0;
  return result.ok() ? ncclSuccess : remember(function, result.error());
}

Status entered(ncclComm_t handle, int rank, std::uint64_t* number) {
  const CommRef comm = SABOT_TRY(enter_seated(handle));
  if (number == nullptr) return Error(Code::kInvalidArgument, "number is NULL");
  if (rank < 0 || rank >= comm->seat.ranks) {
    return Error(Code::kInvalidArgument, "rank is " + std::to_string(rank) +
                                             ", must be a rank of the communicator: 0 to " +
                                             std::to_string(comm->seat.ranks - 1));
  }
  *number = comm->seat.endpoint->entered(rank);
  return {};
}

Status fail(ncclComm_t handle, int culprit, const char* text) {
  const CommRef comm = SABOT_TRY(enter_seated(handle));
  if (text == nullptr) return Error(Code::kInvalidArgument, "text is NULL");
  if (culprit < -1 || culprit >= comm->seat.ranks) {
    return Error(Code::kInvalidArgument, "culprit is " + std::to_string(culprit) +
                                             ", must be a rank of the communicator, 0 to " +
                                             std::to_string(comm->seat.ranks - 1) +
                                             ", or -1 for none");
  }
  comm->seat.endpoint->declare_failed(culprit, text);
  return {};
}

static_assert(sizeof(host::Waiter) <= sizeof(sabot_wait_t) &&
              alignof(host::Waiter) <= alignof(sabot_wait_t));

host::Waiter& waiter_in(sabot_wait_t* wait) {
  return *std::launder(reinterpret_cast<host::Waiter*>(wait->opaque));
}

bool is_crowded(ncclComm_t handle) {
  if (handle == nullptr) return true;
  const Result<CommRef> comm = enter_seated(handle);
  return !comm.ok() || (*comm)->seat.endpoint->oversubscribed();
}

}  // namespace
}  // namespace sabot::comm

using sabot::Code;
using sabot::Error;
using sabot::Status;
using namespace sabot::comm;

#define SABOT_PUBLIC extern "C" __attribute__((visibility("default")))

SABOT_PUBLIC ncclResult_t sabot_channel_put(ncclComm_t comm, int peer, const void* data,
                                            size_t bytes, size_t* moved) {
  constexpr const char* kName = "sabot_channel_put";
  if (moved == nullptr) return remember(kName, Error(Code::kInvalidArgument, "moved is NULL"));
  return answer(kName, put(comm, peer, data, bytes), moved);
}

SABOT_PUBLIC ncclResult_t sabot_channel_take(ncclComm_t comm, int peer, void* data, size_t bytes,
                                             size_t* moved) {
  constexpr const char* kName = "sabot_channel_take";
  if (moved == nullptr) return remember(kName, Error(Code::kInvalidArgument, "moved is NULL"));
  return answer(kName, take(comm, peer, data, bytes), moved);
}

SABOT_PUBLIC int sabot_channel_ready(ncclComm_t comm, int peer) {
  const CommRef ref = enter(comm);
  return ref && ref->usable().ok() && ref->seat.endpoint->has_bytes(peer) ? 1 : 0;
}

SABOT_PUBLIC ncclResult_t sabot_comm_entered(ncclComm_t comm, int rank, uint64_t* number) {
  const Status outcome = entered(comm, rank, number);
  return outcome.ok() ? ncclSuccess : remember("sabot_comm_entered", outcome.error());
}

SABOT_PUBLIC ncclResult_t sabot_comm_fail(ncclComm_t comm, int culprit, const char* text) {
  const Status outcome = fail(comm, culprit, text);
  return outcome.ok() ? ncclSuccess : remember("sabot_comm_fail", outcome.error());
}

SABOT_PUBLIC void sabot_wait_begin(sabot_wait_t* wait, ncclComm_t comm) {
  new (wait->opaque) sabot::host::Waiter(is_crowded(comm));
}

SABOT_PUBLIC void sabot_wait_pause(sabot_wait_t* wait) { waiter_in(wait).pause(); }

SABOT_PUBLIC void sabot_wait_end(sabot_wait_t* wait) { waiter_in(wait).reset(); }
