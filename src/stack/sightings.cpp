// What the application is told goes into the record of the run: errors, and the lives of comms.
#include "abi/names.hpp"
#include "base/log.hpp"
#include "call/thread_state.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {

void Stack::note_seen(run::SeenKind kind, const abi::Call& call, ncclResult_t result,
                      const char* comm_label) noexcept {
  if (recorder_ == nullptr || !recorder_->has_folder()) return;
  const call::KeepErrno keep;
  try {
    run::SeenEntry entry;
    entry.kind = kind;
    entry.function = abi::info(call.function).name;
    const std::string_view code = abi::result_name(result);
    entry.code = result == ncclSuccess ? "" : code.empty() ? "unknown" : code;
    entry.comm = comm_label;
    entry.rank = call.rank;
    entry.world_rank = call.world_rank;
    entry.attempt = call.attempt;
    entry.nth = call.nth;
    entry.thread = call.thread;
    entry.injected = call.injected;
    const Status noted = recorder_->observation().note(entry);
    // Once: a full disk stays full.
    if (!noted.ok() && !said_unseen_.exchange(true)) log::line(noted.error().message());
  } catch (...) {
    // Without memory there is no record; the call itself must go on.
  }
}

void Stack::saw_async_error(const abi::Call& call, const ncclResult_t* reported) noexcept {
  if (reported == nullptr || *reported == ncclSuccess || *reported == ncclInProgress) return;
  note_seen(run::SeenKind::kAsyncError, call, *reported, call.comm_label);
}

void Stack::saw_ending(const abi::Call& call) noexcept {
  const run::SeenKind kind = call.function == abi::FunctionId::kCommAbort ? run::SeenKind::kAborted
                             : call.function == abi::FunctionId::kCommDestroy
                                 ? run::SeenKind::kDestroyed
                                 : run::SeenKind::kRevoked;
  note_seen(kind, call, ncclSuccess, call.comm_label);
}

// Within a group the handle is not there before the group ends: then the comm has no label yet.
void Stack::saw_creation(const abi::Call& call, const call::Creation& creation) noexcept {
  for (int i = 0; i < creation.count; ++i) {
    const ncclComm_t handle =
        call.group_depth > 0 || creation.where == nullptr ? nullptr : creation.where[i];
    const call::CommRecord* made = handle == nullptr ? nullptr : boundary_.registry().find(handle);
    abi::Call born = call;
    if (made != nullptr && made->rank.load() >= 0) born.rank = made->rank.load();
    if (made != nullptr && made->world_rank.load() >= 0) born.world_rank = made->world_rank.load();
    note_seen(run::SeenKind::kCreated, born, ncclSuccess, made == nullptr ? "" : made->label);
  }
}

}  // namespace sabot::stack
