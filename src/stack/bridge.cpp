// One generated function per NCCL function and way of forwarding, expanded from the API spec.
//
// The bridge is the only place that counts. Nothing thrown below leaves it (B6); a thread that is
// cancelled inside NCCL unwinds through it. errno is the callee's on return.
#include "stack/bridge.hpp"

#include <cxxabi.h>

#include <atomic>

#include "abi/names.hpp"
#include "base/log.hpp"
#include "call/last_error.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

using abi::Call;
using abi::FunctionId;

std::atomic<const char*> refusal_text{"Sabot has no engine"};

// Decides where a call goes. `direct` is set where it must not be seen by the layers.
struct Admission {
  const abi::FunctionTable* direct = nullptr;
  const CopyTables* tables = nullptr;
  bool to_host = false;
};

Admission admit(Stack& stack, const call::ThreadState& thread, const void* return_address) {
  Admission admission;
  RealEngine* real = stack.real();
  if (real == nullptr) {
    admission.to_host = thread.inside > 0;
    return admission;
  }
  if (thread.inside > 0 && thread.target != nullptr) {
    admission.direct = &static_cast<const CopyTables*>(thread.target)->own;
    return admission;
  }
  const Destination destination = real->destination(return_address);
  admission.tables = destination.tables;
  if (destination.passes) {
    admission.direct = &destination.tables->own;
  } else {
    destination.tables->copy->note_call();
  }
  return admission;
}

ncclResult_t result_of(ncclResult_t result) { return result; }
template <typename T>
ncclResult_t result_of(const T&) {
  return ncclSuccess;
}

void enter(Stack& stack, Call& call, call::ThreadState& thread, const Admission& admission) {
  call.target = admission.tables;
  stack.count_call(thread);
  stack.boundary().enter(call, thread, stack.engine());
  thread.target = admission.tables;
}

const char* thrown(const char* function) {
  log::line(std::string(function) + ": an exception from inside was turned into an error");
  return function;
}

// What a call of the application goes through: numbered, through the layers, and its consequences
// noted.
template <typename R, typename Through, typename Fill, typename Created>
R bridged(Stack& stack, call::ThreadState& thread, const Admission& admission, FunctionId function,
          Through through, Fill fill, Created created) {
  const call::Inside inside(thread);
  Call call;
  call.function = function;
  fill(call);
  enter(stack, call, thread, admission);
  if constexpr (std::is_void_v<R>) {
    through(stack.top(), &call);
    stack.boundary().leave(call, thread, ncclSuccess);
  } else {
    const R returned = through(stack.top(), &call);
    const ncclResult_t result = result_of(returned);
    if (result != ncclSuccess && result != ncclInProgress && !call.injected)
      // relaxed: a counter
      stack.counters().errors_from_real.fetch_add(1, std::memory_order_relaxed);
    stack.boundary().leave(call, thread, result);
    created.after(stack, call, thread, result);
    return returned;
  }
}

// One entry: decides whether the call is the application's. Nothing thrown below leaves it.
template <typename R, typename Direct, typename Through, typename Fill, typename Created>
[[gnu::always_inline]] inline R entry(FunctionId function, const void* return_address,
                                      Direct direct, Through through, Fill fill, Created created) {
  Stack& stack = *Stack::current();
  call::ThreadState& thread = call::thread_state();
  // The first call of whoever uses a copy of the library that came later (C1).
  if (Created::kCreates || function == FunctionId::kGetUniqueId) stack.before_creation();
  const Admission admission = admit(stack, thread, return_address);
  if (admission.direct != nullptr) return direct(*admission.direct);
  if (admission.to_host) return through(stack.engine(), nullptr);
  try {
    return bridged<R>(stack, thread, admission, function, through, fill, created);
  } catch (__cxxabiv1::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (...) {
    return abi::refusal<R>(ncclInternalError, thrown(abi::info(function).public_name));
  }
}

struct NothingCreated {
  static constexpr bool kCreates = false;
  void after(Stack&, const Call&, call::ThreadState&, ncclResult_t) const {}
};

struct CommsCreated {
  static constexpr bool kCreates = true;
  call::Creation creation;
  void after(Stack& stack, const Call& call, call::ThreadState& thread, ncclResult_t result) const {
    stack.boundary().created(call, thread, result, creation);
    if (result == ncclSuccess) stack.after_creation();
  }
};

#define SABOT_BRIDGE_WITH(name, ret, creation)                                                \
  ret bridge_##name(SABOT_PARAMS_##name) {                                                    \
    return entry<ret>(                                                                        \
        FunctionId::k##name, __builtin_return_address(0),                                     \
        [&](const abi::FunctionTable& to) -> ret { return to.call.name(SABOT_ARGS_##name); }, \
        [&](const abi::Api& to, Call* call) -> ret {                                          \
          return to.table->name(to.self, call SABOT_TAIL_ARGS_##name);                        \
        },                                                                                    \
        [&](Call& sabot_filled) {                                                             \
          (void)sabot_filled;                                                                 \
          SABOT_FILL_##name(sabot_filled);                                                    \
        },                                                                                    \
        creation);                                                                            \
  }
#define SABOT_BRIDGE(name, ret) SABOT_BRIDGE_WITH(name, ret, NothingCreated{})
SABOT_ORDINARY(SABOT_BRIDGE)
#undef SABOT_BRIDGE
#define SABOT_BRIDGE(name, ret) SABOT_BRIDGE_WITH(name, ret, (CommsCreated{{SABOT_CREATED_##name}}))
SABOT_CREATORS(SABOT_BRIDGE)
#undef SABOT_BRIDGE

#define SABOT_ROUTE(name, ret)                                                                 \
  ret routed_##name(SABOT_PARAMS_##name) {                                                     \
    const Destination to = Stack::current()->real()->destination(__builtin_return_address(0)); \
    return (to.passes ? to.tables->own : to.tables->next).call.name(SABOT_ARGS_##name);        \
  }
SABOT_API(SABOT_ROUTE)
#undef SABOT_ROUTE

#define SABOT_WATCH(name, ret)                                                                 \
  ret watching_##name(SABOT_PARAMS_##name) {                                                   \
    Stack::current()->before_creation();                                                       \
    const Destination to = Stack::current()->real()->destination(__builtin_return_address(0)); \
    return (to.passes ? to.tables->own : to.tables->next).call.name(SABOT_ARGS_##name);        \
  }
SABOT_CREATORS(SABOT_WATCH)
SABOT_WATCH(GetUniqueId, ncclResult_t)
#undef SABOT_WATCH

const char* watching_GetLastError(ncclComm_t comm) {
  if (const char* text = call::last_error()) {
    call::clear_last_error();  // without a layer nobody sees the library fail afterwards
    return text;
  }
  const Destination to = Stack::current()->real()->destination(__builtin_return_address(0));
  return (to.passes ? to.tables->own : to.tables->next).call.GetLastError(comm);
}

// Slots by name: the rest of the table stays null.
constexpr abi::FunctionTable watching_table() {
  abi::FunctionTable table{};
#define SABOT_SLOT(name, ret) table.call.name = &watching_##name;
  SABOT_CREATORS(SABOT_SLOT)
  SABOT_SLOT(GetUniqueId, ncclResult_t)
  SABOT_SLOT(GetLastError, const char*)
#undef SABOT_SLOT
  return table;
}

#define SABOT_HOST(name, ret)                                               \
  ret host_##name(SABOT_PARAMS_##name) {                                    \
    const abi::Api engine = Stack::current()->engine();                     \
    return engine.table->name(engine.self, nullptr SABOT_TAIL_ARGS_##name); \
  }
SABOT_API(SABOT_HOST)
#undef SABOT_HOST

#define SABOT_REFUSE(name, ret)                                     \
  ret refusing_##name(SABOT_PARAMS_##name) {                        \
    SABOT_UNUSED_##name;                                            \
    return abi::refusal<ret>(ncclSystemError, refusal_text.load()); \
  }
SABOT_API(SABOT_REFUSE)
#undef SABOT_REFUSE

}  // namespace

#define SABOT_SLOT(name, ret) &bridge_##name,
constexpr abi::FunctionTable kBridge = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
#define SABOT_SLOT(name, ret) &routed_##name,
constexpr abi::FunctionTable kRouted = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
constexpr abi::FunctionTable kWatching = watching_table();
#define SABOT_SLOT(name, ret) &host_##name,
constexpr abi::FunctionTable kHostDirect = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
#define SABOT_SLOT(name, ret) &refusing_##name,
constexpr abi::FunctionTable kRefusing = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT

void set_refusal(const char* text) { refusal_text.store(text); }

}  // namespace sabot::stack
