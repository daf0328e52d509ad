// The two moments of an announced call, and the keys of announced communicators.
#include "stack/api/announced.hpp"

#include <cstddef>
#include <cstdio>
#include <new>
#include <optional>
#include <string>

#include "abi/names.hpp"
#include "stack/layers.hpp"

namespace sabot::stack::api {
namespace {

using abi::Call;

constexpr std::uint64_t kEntered =
    0x64657265746E6573;  // "sentered": not what memory holds by chance

// Callers that were compiled before sabot_call_t::memory existed.
constexpr std::size_t kCallBytesMin = offsetof(sabot_call_t, memory);

// What a call is between its moments.
struct Announced {
  std::uint64_t mark = 0;
  call::ThreadState* thread = nullptr;
  const void* outer_target = nullptr;
  int depth = 0;                              // of the thread, this call included
  bool is_numbered = false;                   // not within another call, and Sabot is not disabled
  layer::FaultLayer::Begun* begun = nullptr;  // owned; null: nothing fired
  Call call;
};
static_assert(sizeof(Announced) <= sizeof(sabot_call_t::opaque) && alignof(Announced) <= 8);
static_assert(std::is_trivially_destructible_v<Announced>);

Error refuse(std::string text) { return Error(Code::kInvalidArgument, std::move(text)); }

std::string pointer_text(const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  return text;
}

// This thread inside one more call; outside it again at the end of the scope, unless it stays.
class Inside {
 public:
  explicit Inside(call::ThreadState& thread) : thread_(thread), outer_target_(thread.target) {
    ++thread_.inside;
  }
  // Takes over from an Inside that stayed.
  Inside(call::ThreadState& thread, const void* outer_target)
      : thread_(thread), outer_target_(outer_target) {}
  ~Inside() {
    if (stays_) return;
    --thread_.inside;
    thread_.target = outer_target_;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  void stay() { stays_ = true; }

 private:
  call::ThreadState& thread_;
  const void* outer_target_;
  bool stays_ = false;
};

// Only what the function has: a call of NCCL has no root where it takes none.
void fill(Call& call, const sabot_call_t& from, const abi::FunctionInfo& function) {
  call.function = function.id;
  call.lane = abi::Lane::kAnnounced;
  call.comm = from.comm;
  call.has_count = function.has_count;
  if (function.has_count) call.count = from.count;
  if (function.has_datatype) call.datatype = from.datatype;
  if (function.has_count && from.datatype < 0) call.bytes = from.bytes;
  if (function.has_redop) call.redop = from.redop;
  if (function.has_root) call.root = from.root;
  if (function.has_peer) call.peer = from.peer;
  if (function.has_stream) call.stream = from.stream;
  call.send = from.send;
  call.recv = from.recv;
  if (from.size >= sizeof(sabot_call_t)) call.host_memory = from.memory == SABOT_MEMORY_HOST;
  if (from.comm != nullptr) return;
  call.rank = from.rank;
  call.comm_ranks = from.ranks;
}

void tell(const Call& call, sabot_call_t& to) {
  if (call.has_count) to.bytes = call.bytes;
  to.rank = call.rank;
  to.ranks = call.comm_ranks;
  to.nth = call.nth;
  to.nth_collective = call.nth_collective;
  to.comm_label = call.comm_label;
}

// What the caller has to know: whether to execute, and what it will be given. Waits and crashes
// before the call are over.
void tell(const layer::FaultLayer::Begun* begun, sabot_decision_t& to) {
  to.kind = SABOT_DECISION_NONE;
  to.result = ncclSuccess;
  to.before = 0;
  to.text = "";
  if (begun == nullptr) return;
  to.before = begun->is_made ? 0 : 1;
  const layer::Ordeal* const ordeal = begun->ordeal.get();
  const layer::Firing* const error = ordeal == nullptr ? nullptr : ordeal->replacement();
  to.result = error == nullptr ? begun->result : static_cast<ncclResult_t>(error->act.result);
  if (to.result != ncclSuccess) {
    to.kind = SABOT_DECISION_ERROR;
    to.text = error == nullptr ? call::last_error() : error->text;
  } else if (to.before != 0) {
    to.kind = SABOT_DECISION_SKIP;
  } else if (ordeal != nullptr && ordeal->changes_data()) {
    to.kind = SABOT_DECISION_DATA;
  }
}

// What the library would have said. The caller may hand over what it is about to return; a call
// that was not to be executed has no result of its own.
ncclResult_t executed_result(const layer::FaultLayer::Begun& begun, ncclResult_t given) {
  if (!begun.is_made) return begun.result;
  const layer::Firing* const error =
      begun.ordeal == nullptr ? nullptr : begun.ordeal->replacement();
  const bool is_decided = error != nullptr && given == static_cast<ncclResult_t>(error->act.result);
  return is_decided ? ncclSuccess : given;
}

Result<const abi::FunctionInfo*> function_of(const sabot_call_t& call) {
  if (call.function == nullptr) return refuse("sabot_call_enter: function is NULL");
  const std::optional<abi::FunctionId> id = abi::find_function(call.function);
  if (!id)
    return refuse("sabot_call_enter: NCCL has no function '" + std::string(call.function) + "'");
  const abi::FunctionInfo& function = abi::info(*id);
  if (function.kind == abi::Kind::group)
    return refuse("sabot_call_enter: calls are announced one by one, outside groups, so " +
                  std::string(function.name) + " cannot be");
  return &function;
}

}  // namespace

Status open_comm(Stack& stack, const sabot_comm_info_t* info) {
  if (info == nullptr || info->size < sizeof(sabot_comm_info_t))
    return refuse("sabot_comm_open: size is not that of sabot_comm_info_t");
  if (info->key == nullptr) return refuse("sabot_comm_open: key is NULL");
  if (info->ranks < 1 || info->rank < 0 || info->rank >= info->ranks)
    return refuse("sabot_comm_open: rank " + std::to_string(info->rank) + " of " +
                  std::to_string(info->ranks) + " ranks does not exist");
  stack.follow();
  call::Registry& registry = stack.boundary().registry();
  if (registry.find(info->key) != nullptr)
    return refuse("sabot_comm_open: key " + pointer_text(info->key) + " is open already");
  call::Birth birth;
  birth.handle = info->key;
  birth.rank = info->rank;
  birth.ranks = info->ranks;
  birth.identity = info->identity;
  birth.lane = abi::Lane::kAnnounced;
  birth.name = info->name;
  if (info->parent != nullptr) {
    call::CommRecord* parent = registry.find(info->parent);
    if (parent == nullptr)
      return refuse("sabot_comm_open: parent " + pointer_text(info->parent) + " is not known");
    birth.parent = parent;
    birth.child_number = parent->children.fetch_add(1);
  }
  registry.create(birth);
  stack.after_creation();
  return {};
}

Status close_comm(Stack& stack, const void* key) {
  call::Registry& registry = stack.boundary().registry();
  const call::CommRecord* record = registry.find(key);
  if (record == nullptr)
    return refuse("sabot_comm_close: key " + pointer_text(key) + " is not open");
  if (record->lane != abi::Lane::kAnnounced)
    return refuse("sabot_comm_close: " + pointer_text(key) + " is a communicator of NCCL");
  registry.retire(key);
  if (stack.layers() != nullptr) stack.layers()->closed(key);
  return {};
}

Status enter_call(Stack& stack, sabot_call_t* call, sabot_decision_t* decision) {
  if (call == nullptr || call->size < kCallBytesMin)
    return refuse("sabot_call_enter: size is not that of sabot_call_t");
  if (decision == nullptr || decision->size < sizeof(sabot_decision_t))
    return refuse("sabot_call_enter: size is not that of sabot_decision_t");
  if (!stack.failure().empty()) return Error(Code::kSystem, stack.failure());
  const abi::FunctionInfo* function = SABOT_TRY(function_of(*call));

  call::ThreadState& thread = call::thread_state();
  Announced state;
  fill(state.call, *call, *function);
  state.is_numbered = stack.layers() != nullptr && thread.inside == 0;
  if (state.is_numbered && call->comm != nullptr) {
    const call::CommRecord* record = stack.boundary().registry().find(call->comm);
    if (record == nullptr)
      return refuse("sabot_call_enter: comm " + pointer_text(call->comm) +
                    " is neither open (sabot_comm_open) nor of an NCCL that Sabot saw");
    state.call.target = record->target;
  }
  state.mark = kEntered;
  state.thread = &thread;
  state.outer_target = thread.target;
  Inside inside(thread);
  state.depth = thread.inside;
  if (state.is_numbered) {
    stack.count_call(thread);
    stack.boundary().enter(state.call, thread, stack.engine());
    thread.target = nullptr;
    layer::FaultLayer::Begun begun = stack.layers()->announced(state.call);
    if (begun.ordeal != nullptr || !begun.is_made)
      state.begun = new layer::FaultLayer::Begun(std::move(begun));
  }
  tell(state.call, *call);
  tell(state.begun, *decision);
  new (call->opaque) Announced(state);
  inside.stay();
  return {};
}

Result<ncclResult_t> leave_call(Stack& stack, sabot_call_t* call, ncclResult_t result) {
  call::ThreadState& thread = call::thread_state();
  auto* state =
      call == nullptr ? nullptr : std::launder(reinterpret_cast<Announced*>(call->opaque));
  if (state == nullptr || state->mark != kEntered || state->thread != &thread ||
      state->depth != thread.inside)
    return Error(Code::kInvalidUsage,
                 "sabot_call_leave: this thread did not enter this call, or entered another since "
                 "that it has not left");
  const Inside inside(thread, state->outer_target);
  state->mark = 0;
  if (!state->is_numbered) return result;
  const std::unique_ptr<layer::FaultLayer::Begun> held(state->begun);
  layer::FaultLayer::Begun none;
  layer::FaultLayer::Begun& begun = held == nullptr ? none : *held;
  result = stack.layers()->concluded(state->call, begun, executed_result(begun, result));
  stack.count_error(state->call, result);
  stack.boundary().leave(state->call, thread, result);
  return result;
}

}  // namespace sabot::stack::api
