// Calls alone and in groups, and the ends of communicators.
#include "layer/fault.hpp"

#include <utility>

#include "call/thread_state.hpp"

namespace sabot::layer {
namespace {

using abi::FunctionId;
using scenario::ActionKind;
using scenario::Moment;

bool is_success(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

bool is_instead(const Firing& firing) {
  return firing.act.kind == ActionKind::kExhaust || firing.act.moment == Moment::kBefore;
}

// What NCCL refuses on a communicator with a pending asynchronous error.
bool meets_async_error(const abi::Call& call) {
  const abi::Kind kind = abi::info(call.function).kind;
  return call.comm != nullptr && (abi::enqueues(kind) || kind == abi::Kind::finalize);
}

bool ends_comm(const abi::Call& call) {
  const abi::Kind kind = abi::info(call.function).kind;
  return kind == abi::Kind::destroy || kind == abi::Kind::abort || kind == abi::Kind::finalize ||
         kind == abi::Kind::revoke;
}

constexpr const char* kCutOffText =
    "a fault injected by Sabot held this call when its communicator was ended; it was not made";

Means means_of(FaultPlan& plan, Holds& holds, AsyncErrors& async_errors,
               Registrations& registrations, const FaultSeams& seams) {
  return {.plan = plan,
          .holds = holds,
          .async_errors = async_errors,
          .streams = seams.streams,
          .links = seams.links,
          .is_real = seams.is_real,
          .setting = [&registrations, seams](const abi::Call& call) {
            MismatchSetting setting;
            setting.is_real = seams.is_real[static_cast<std::size_t>(call.lane)];
            setting.shares_process = seams.shares_process && seams.shares_process(call);
            setting.has_registered = registrations.has(call.comm);
            return setting;
          }};
}

}  // namespace

FaultLayer::FaultLayer(abi::Api next_api, FaultPlan& plan, const FaultSeams& seams)
    : next(next_api),
      plan_(plan),
      table_(abi::Around<FaultLayer>::kTable),
      means_(means_of(plan, holds_, async_errors_, registrations_, seams)),
      control_(seams.control),
      on_news_(seams.on_news) {
  if (seams.control != nullptr) holds_.set_control(*seams.control);
  holds_.set_gone(seams.is_gone);
  table_.CommGetAsyncError = &FaultLayer::get_async_error;
  table_.GetLastError = &FaultLayer::get_last_error;
  table_.CommDestroy = &FaultLayer::comm_destroy;
  table_.CommAbort = &FaultLayer::comm_abort;
  table_.CommFinalize = &FaultLayer::comm_finalize;
  table_.CommRevoke = &FaultLayer::comm_revoke;
  table_.CommShrink = &FaultLayer::comm_shrink;
  table_.CommRegister = &FaultLayer::comm_register;
  table_.CommWindowRegister = &FaultLayer::comm_window_register;
}

void FaultLayer::hear_news() {
  const call::KeepErrno keep;
  const std::uint64_t generation = control_->generation();
  if (heard_.exchange(generation) != generation && on_news_) on_news_();
}

std::unique_ptr<Ordeal> FaultLayer::considered(abi::Call& call, const void* comm) {
  if (!plan_.concerns(call.function)) return nullptr;
  StreamEffects* const streams = means_.streams[static_cast<std::size_t>(call.lane)];
  if (plan_.asks_captured() && streams != nullptr && abi::info(call.function).has_stream) {
    const Result<bool> captured = streams->captured(call.stream);
    call.captured = captured.ok() && *captured;
  }
  Firings firings;
  plan_.consider(call, firings);
  if (__builtin_expect(firings.empty(), 1)) return nullptr;
  abi::Call met = call;
  if (met.comm == nullptr) met.comm = comm;
  return std::make_unique<Ordeal>(means_, met, firings);
}

ncclResult_t FaultLayer::latched(abi::Call& call) const {
  if (!async_errors_.has_latched() || !meets_async_error(call)) return ncclSuccess;
  const ncclResult_t code = async_errors_.enqueued(call.comm);
  if (code != ncclSuccess) call.injected = true;
  return code;
}

FaultLayer::Begun FaultLayer::cut_off(abi::Call& call, std::unique_ptr<Ordeal> ordeal) {
  call.injected = true;
  call::set_last_error(kCutOffText);
  return {.ordeal = std::move(ordeal), .is_made = false, .result = ncclInternalError};
}

ncclResult_t FaultLayer::deliver(abi::Call& call, const Ordeal& ordeal) {
  const auto code = static_cast<ncclResult_t>(ordeal.replacement()->act.result);
  call.injected = true;
  call::set_last_error(ordeal.replacement_text());
  if (call.nonblocking) async_errors_.note(call.comm, code);
  return code;
}

// ---- Alone ----

FaultLayer::Begun FaultLayer::begin(abi::Call& call) {
  if (call.lane == abi::Lane::kAnnounced) announce_end(call);
  Begun begun;
  begun.ordeal = considered(call, nullptr);
  if (Ordeal* const ordeal = begun.ordeal.get()) {
    if (!ordeal->enter() || !ordeal->begin_work()) return cut_off(call, std::move(begun.ordeal));
    const Firing* const error = ordeal->replacement();
    begun.is_made = !ordeal->is_left_out() && (error == nullptr || !is_instead(*error));
    begun.other = ordeal->mismatched();
  }
  if (const ncclResult_t code = begun.is_made ? latched(call) : ncclSuccess; code != ncclSuccess)
    begun.is_made = false, begun.result = code;
  return begun;
}

ncclResult_t FaultLayer::end(abi::Call& call, Begun& begun, ncclResult_t result) {
  Ordeal* const ordeal = begun.ordeal.get();
  if (call.lane == abi::Lane::kAnnounced && ends_comm(call)) holds_.ended(call.comm);
  const bool is_cut_off = !begun.is_made && begun.result != ncclSuccess;
  if (ordeal == nullptr || is_cut_off) return result;
  const bool is_taken = begun.is_made && is_success(result);
  ordeal->end_work(is_taken);
  const Firing* const error = ordeal->replacement();
  if (error != nullptr && (is_instead(*error) || is_success(result)))
    result = deliver(call, *ordeal);
  ordeal->leave(is_taken);
  return result;
}

// ---- In a group ----

// The library drops a group in which a call was wrong: hand it one that can only be wrong. A
// broadcast from rank -1 where the group has a communicator, else the creation of one with no
// ranks.
void FaultLayer::drop(GroupFaults& group, const abi::Call& call) {
  if (std::exchange(group.is_dropped, true) || !group.has_forwarded) return;
  abi::Call wrong = call;
  if (group.forwarded_comm != nullptr && !group.is_cut_off) {
    auto* handle = static_cast<ncclComm_t>(const_cast<void*>(group.forwarded_comm));
    next.table->Broadcast(next.self, &wrong, nullptr, nullptr, 1, ncclInt8, -1, handle, nullptr);
    return;
  }
  ncclComm_t none = nullptr;
  next.table->CommInitRank(next.self, &wrong, &none, 0, ncclUniqueId{}, 0);
}

// What the firings of a grouped call do at the call itself.
FaultLayer::Begun FaultLayer::begin_with(abi::Call& call, Ordeal& ordeal, GroupFaults& group) {
  Begun begun;
  if (!ordeal.enter()) {
    group.is_cut_off = true;
    group.fail(ncclInternalError, kCutOffText);
    drop(group, call);
    return cut_off(call, nullptr);
  }
  if (const Firing* const error = ordeal.replacement()) {
    group.fail(static_cast<ncclResult_t>(error->act.result), ordeal.replacement_text());
    group.hit_comm(call);
    if (is_instead(*error)) drop(group, call);
  }
  begun.is_made = !ordeal.is_left_out();
  begun.other = ordeal.mismatched();
  return begun;
}

FaultLayer::Begun FaultLayer::begin_in_group(abi::Call& call, bool is_end) {
  GroupFaults& group = group_of(call);
  Begun begun;
  // The end of a group is about the communicators that have work in it; one stands for all.
  const void* const comm = is_end ? group.forwarded_comm : nullptr;
  if (std::unique_ptr<Ordeal> ordeal = considered(call, comm)) {
    begun = begin_with(call, *ordeal, group);
    begun.ordeal = nullptr;
    // Also for the other arguments of a mismatch, which the caller is about to read.
    if (begun.result == ncclSuccess) group.ordeals.push_back(std::move(ordeal));
  }
  if (is_end || !begun.is_made || !abi::enqueues(abi::info(call.function).kind)) return begun;
  if (const ncclResult_t code = latched(call); code != ncclSuccess && !group.is_dropped) {
    group.fail(code, call::last_error());
    drop(group, call);
    return {.ordeal = nullptr, .is_made = false, .result = code};
  }
  begun.is_made = !group.is_dropped;
  if (!begun.is_made) return begun;
  group.has_forwarded = true;
  if (call.comm != nullptr) group.forwarded_comm = call.comm;
  return begun;
}

void FaultLayer::begin_group_work(const abi::Call& call) {
  GroupFaults& group = group_of(call);
  if (group.is_dropped) return;
  for (const std::unique_ptr<Ordeal>& ordeal : group.ordeals) {
    if (ordeal->begin_work()) continue;
    group.is_cut_off = true;
    group.fail(ncclInternalError, kCutOffText);
    return drop(group, call);
  }
}

ncclResult_t FaultLayer::inner_result(abi::Call& call, ncclResult_t result) {
  const GroupFaults& group = group_of(call);
  if (!group.is_dropped) return result;
  call.injected = true;
  return group.result;
}

ncclResult_t FaultLayer::outermost_result(abi::Call& call, ncclResult_t result) {
  GroupFaults group = std::exchange(group_of(call), GroupFaults{});
  const bool is_taken = !group.is_dropped && is_success(result);
  // Calls may share an input: the last one's is put back first.
  for (auto it = group.ordeals.rbegin(); it != group.ordeals.rend(); ++it)
    (*it)->end_work(is_taken);
  // A real failure of a group that was not dropped is the newer truth.
  if (group.result != ncclSuccess && (is_success(result) || group.is_dropped)) {
    call.injected = true;
    call::set_last_error(group.text);
    for (std::size_t i = 0; i < group.hit_count; ++i)
      async_errors_.note(group.hit[i], group.result);
    result = group.result;
  }
  for (const std::unique_ptr<Ordeal>& ordeal : group.ordeals) ordeal->leave(is_taken);
  return result;
}

// ---- Errors that are asked for, and the ends of communicators ----

ncclResult_t FaultLayer::get_async_error(void* self, abi::Call* call, ncclComm_t comm,
                                         ncclResult_t* result) {
  auto* layer = static_cast<FaultLayer*>(self);
  const ncclResult_t code = abi::Around<FaultLayer>::CommGetAsyncError(self, call, comm, result);
  if (code != ncclSuccess || comm == nullptr || result == nullptr) return code;
  const ncclResult_t injected = layer->async_errors_.polled(comm);
  if (injected != ncclSuccess) *result = injected;
  return code;
}

const char* FaultLayer::get_last_error(void* self, abi::Call* call, ncclComm_t comm) {
  if (const char* text = call::last_error()) return text;
  return abi::Around<FaultLayer>::GetLastError(self, call, comm);
}

void FaultLayer::begin_end(const void* comm, Ending how) {
  holds_.ending(comm, how);
  async_errors_.forget(comm);
  registrations_.forget(comm);
}

// An end that somebody else executes does not pass through the table.
void FaultLayer::announce_end(const abi::Call& call) {
  if (call.comm == nullptr || !ends_comm(call)) return;
  const abi::Kind kind = abi::info(call.function).kind;
  const Ending how =
      kind == abi::Kind::abort || kind == abi::Kind::revoke ? Ending::kAbort : Ending::kOrderly;
  if (kind == abi::Kind::finalize || kind == abi::Kind::revoke)
    return holds_.ending(call.comm, how);
  begin_end(call.comm, how);
}

// How a communicator's end goes on from here on: what is held of it is released before the library
// is asked, which would wait for it; a stream of the host engine goes on once an abort is over.
template <typename Forward>
ncclResult_t FaultLayer::ending(const abi::Call& call, bool is_over, Ending how, Forward forward) {
  if (call.comm == nullptr) return forward();
  const auto lane = static_cast<std::size_t>(call.lane);
  if (!is_over) holds_.ending(call.comm, how);
  if (StreamEffects* const streams = means_.streams[lane]) streams->forget(call.comm);
  if (is_over) {
    begin_end(call.comm, how);
    if (LinkEffects* const links = means_.links[lane]) links->forget(call.comm);
  }
  const ncclResult_t result = forward();
  holds_.ended(call.comm);
  return result;
}

ncclResult_t FaultLayer::comm_destroy(void* self, abi::Call* call, ncclComm_t comm) {
  return static_cast<FaultLayer*>(self)->ending(*call, true, Ending::kOrderly, [&] {
    return abi::Around<FaultLayer>::CommDestroy(self, call, comm);
  });
}

ncclResult_t FaultLayer::comm_abort(void* self, abi::Call* call, ncclComm_t comm) {
  return static_cast<FaultLayer*>(self)->ending(*call, true, Ending::kAbort, [&] {
    return abi::Around<FaultLayer>::CommAbort(self, call, comm);
  });
}

ncclResult_t FaultLayer::comm_finalize(void* self, abi::Call* call, ncclComm_t comm) {
  return static_cast<FaultLayer*>(self)->ending(*call, false, Ending::kOrderly, [&] {
    return abi::Around<FaultLayer>::CommFinalize(self, call, comm);
  });
}

ncclResult_t FaultLayer::comm_revoke(void* self, abi::Call* call, ncclComm_t comm, int flags) {
  return static_cast<FaultLayer*>(self)->ending(*call, false, Ending::kAbort, [&] {
    return abi::Around<FaultLayer>::CommRevoke(self, call, comm, flags);
  });
}

ncclResult_t FaultLayer::comm_shrink(void* self, abi::Call* call, ncclComm_t comm, int* excluded,
                                     int excluded_count, ncclComm_t* newcomm, ncclConfig_t* config,
                                     int flags) {
  const auto forward = [&] {
    return abi::Around<FaultLayer>::CommShrink(self, call, comm, excluded, excluded_count, newcomm,
                                               config, flags);
  };
  if ((flags & NCCL_SHRINK_ABORT) == 0) return forward();
  return static_cast<FaultLayer*>(self)->ending(*call, false, Ending::kAbort, forward);
}

ncclResult_t FaultLayer::comm_register(void* self, abi::Call* call, ncclComm_t comm, void* buffer,
                                       size_t size, void** handle) {
  static_cast<FaultLayer*>(self)->registrations_.note(comm);
  return abi::Around<FaultLayer>::CommRegister(self, call, comm, buffer, size, handle);
}

ncclResult_t FaultLayer::comm_window_register(void* self, abi::Call* call, ncclComm_t comm,
                                              void* buffer, size_t size, ncclWindow_t* window,
                                              int flags) {
  static_cast<FaultLayer*>(self)->registrations_.note(comm);
  return abi::Around<FaultLayer>::CommWindowRegister(self, call, comm, buffer, size, window, flags);
}

}  // namespace sabot::layer
