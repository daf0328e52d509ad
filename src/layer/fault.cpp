// Groups and non-blocking communicators under an injected error.
#include "layer/fault.hpp"

#include <memory>
#include <string>

namespace sabot::layer {
namespace {

using abi::FunctionId;

// The open group of this thread, as far as faults are concerned.
struct GroupState {
  std::uint64_t group = 0;  // number of the group this state belongs to
  bool dropped = false;     // a *before* fault fired: nothing of this group is launched
  ncclResult_t result = ncclSuccess;
  const void* forwarded_comm = nullptr;  // some communicator that the library holds work for
  bool forwarded_any = false;
  std::array<const void*, 8> hit{};  // non-blocking communicators to mark
  std::size_t hit_count = 0;
  std::string text;
};
// By lane: a group of one engine may be open while the thread calls the other. On the heap, for the
// reason that call/last_error.cpp gives.
thread_local std::unique_ptr<std::array<GroupState, abi::kLaneCount>> open_groups;

GroupState& state_of(const abi::Call& call) {
  if (open_groups == nullptr)
    open_groups = std::make_unique<std::array<GroupState, abi::kLaneCount>>();
  GroupState& open = (*open_groups)[static_cast<std::size_t>(call.lane)];
  if (open.group != call.group) {
    open = GroupState{};
    open.group = call.group;
  }
  return open;
}

}  // namespace

FaultLayer::FaultLayer(abi::Api next_api, FaultPlan& plan)
    : next(next_api), plan_(plan), table_(abi::Around<FaultLayer>::kTable) {
  table_.CommGetAsyncError = &FaultLayer::get_async_error;
  table_.GetLastError = &FaultLayer::get_last_error;
  table_.CommDestroy = &FaultLayer::comm_destroy;
  table_.CommAbort = &FaultLayer::comm_abort;
}

void FaultLayer::remember(const abi::Call& call) {
  GroupState& group = state_of(call);
  const std::optional<Firing> firing = consider(call);
  if (!firing) return;
  if (group.result == ncclSuccess) {
    group.result = firing->result;
    group.text = firing->text;
  }
  if (call.nonblocking && group.hit_count < group.hit.size())
    group.hit[group.hit_count++] = call.comm;
  if (!firing->before || group.dropped) return;
  group.dropped = true;
  if (group.forwarded_any) spoil_group(call);
}

bool FaultLayer::swallows(const abi::Call& call) const {
  return state_of(call).dropped && abi::enqueues(abi::info(call.function).kind);
}

void FaultLayer::note_forwarded(const abi::Call& call) {
  if (!abi::enqueues(abi::info(call.function).kind)) return;
  GroupState& group = state_of(call);
  group.forwarded_any = true;
  if (call.comm != nullptr) group.forwarded_comm = call.comm;
}

// The library drops a group in which a call was wrong: hand it one that can only be wrong. A
// broadcast from rank -1 where the group has a communicator, else the creation of one with no
// ranks.
void FaultLayer::spoil_group(const abi::Call& call) {
  abi::Call wrong = call;
  if (const void* comm = state_of(call).forwarded_comm) {
    auto* handle = static_cast<ncclComm_t>(const_cast<void*>(comm));
    next.table->Broadcast(next.self, &wrong, nullptr, nullptr, 1, ncclInt8, -1, handle, nullptr);
    return;
  }
  ncclComm_t none = nullptr;
  next.table->CommInitRank(next.self, &wrong, &none, 0, ncclUniqueId{}, 0);
}

ncclResult_t FaultLayer::inner_result(abi::Call& call, ncclResult_t result) {
  const GroupState& group = state_of(call);
  if (!group.dropped) return result;
  call.injected = true;
  return group.result;
}

ncclResult_t FaultLayer::outermost_result(abi::Call& call, ncclResult_t result) {
  GroupState& group = state_of(call);
  const bool library_failed = result != ncclSuccess && result != ncclInProgress;
  const ncclResult_t injected = group.result;
  // A real failure of a group that was not dropped is the newer truth.
  if (injected == ncclSuccess || (library_failed && !group.dropped)) {
    group = GroupState{};
    return result;
  }
  call.injected = true;
  call::set_last_error(group.text);
  for (std::size_t i = 0; i < group.hit_count; ++i) set_async(group.hit[i], injected);
  group = GroupState{};
  return injected;
}

ncclResult_t FaultLayer::deliver(abi::Call& call, const Firing& firing) {
  call.injected = true;
  call::set_last_error(firing.text);
  if (call.nonblocking) set_async(call.comm, firing.result);
  return firing.result;
}

void FaultLayer::set_async(const void* comm, ncclResult_t result) {
  for (AsyncError& entry : async_) {
    const void* expected = nullptr;
    if (entry.comm.load() != comm && !entry.comm.compare_exchange_strong(expected, comm)) continue;
    entry.result.store(result);
    return;
  }
}

ncclResult_t FaultLayer::async_of(const void* comm) const {
  for (const AsyncError& entry : async_)
    if (entry.comm.load() == comm) return static_cast<ncclResult_t>(entry.result.load());
  return ncclSuccess;
}

void FaultLayer::forget_async(const void* comm) {
  for (AsyncError& entry : async_) {
    if (entry.comm.load() != comm) continue;
    entry.result.store(ncclSuccess);
    entry.comm.store(nullptr);
  }
}

ncclResult_t FaultLayer::get_async_error(void* self, abi::Call* call, ncclComm_t comm,
                                         ncclResult_t* result) {
  auto* layer = static_cast<FaultLayer*>(self);
  const ncclResult_t code = abi::Around<FaultLayer>::CommGetAsyncError(self, call, comm, result);
  if (code != ncclSuccess || comm == nullptr || result == nullptr) return code;
  const ncclResult_t injected = layer->async_of(comm);
  if (injected != ncclSuccess) *result = injected;
  return code;
}

const char* FaultLayer::get_last_error(void* self, abi::Call* call, ncclComm_t comm) {
  if (const char* text = call::last_error()) return text;
  return abi::Around<FaultLayer>::GetLastError(self, call, comm);
}

ncclResult_t FaultLayer::comm_destroy(void* self, abi::Call* call, ncclComm_t comm) {
  if (comm != nullptr) static_cast<FaultLayer*>(self)->forget_async(comm);
  return abi::Around<FaultLayer>::CommDestroy(self, call, comm);
}

ncclResult_t FaultLayer::comm_abort(void* self, abi::Call* call, ncclComm_t comm) {
  if (comm != nullptr) static_cast<FaultLayer*>(self)->forget_async(comm);
  return abi::Around<FaultLayer>::CommAbort(self, call, comm);
}

}  // namespace sabot::layer
