// One generated function per NCCL function and way of forwarding, expanded from the API spec.
//
// The bridge is the only place that counts. Nothing thrown below leaves it (B6); a thread that is
// cancelled inside NCCL unwinds through it. errno is the callee's on return.
#include "stack/bridge.hpp"

#include <cxxabi.h>

#include <string>

#include "abi/names.hpp"
#include "base/log.hpp"
#include "stack/entries.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

using abi::Call;
using abi::FunctionId;

// Decides where a call goes. `direct` is set where it must not be seen by the layers.
struct Admission {
  const abi::FunctionTable* direct = nullptr;
  const CopyTables* tables = nullptr;
  abi::Lane lane = abi::Lane::kProcess;
};

// A call of an exported function.
struct FromApplication {
  const void* return_address;

  Admission admit(Stack& stack, const call::ThreadState& thread) const {
    Admission admission;
    RealEngine* real = stack.real();
    if (real == nullptr) {
      if (thread.inside > 0) admission.direct = &kHostDirect;
      return admission;
    }
    if (thread.inside > 0 && thread.target != nullptr) {
      admission.direct = &static_cast<const CopyTables*>(thread.target)->own;
      return admission;
    }
    const Destination destination = real->destination(return_address);
    admission.tables = destination.tables;
    if (destination.passes)
      admission.direct = &destination.tables->own;
    else if (thread.inside > 0)  // within an announced call, or one of the engine beside
      admission.direct = &destination.tables->next;
    else
      destination.tables->copy->note_call();
    return admission;
  }
};

// A call of what host_function gave, in a process whose engine is real.
struct FromBeside {
  static Admission admit(Stack& stack, const call::ThreadState& thread) {
    if (thread.inside > 0) return {.direct = &kHostDirect};
    return {.tables = &stack.beside(), .lane = abi::Lane::kBeside};
  }
};

// Abort, destroy and revoke are recorded as they begin: they may not return.
constexpr bool ends_comm(FunctionId function) {
  return function == FunctionId::kCommAbort || function == FunctionId::kCommDestroy ||
         function == FunctionId::kCommRevoke;
}

// Where CommGetAsyncError, the only function of this signature, writes its answer.
template <typename... Arguments>
const ncclResult_t* reported(const Arguments&...) {
  return nullptr;
}
inline const ncclResult_t* reported(ncclComm_t, ncclResult_t* error) { return error; }

ncclResult_t result_of(ncclResult_t result) { return result; }
template <typename T>
ncclResult_t result_of(const T&) {
  return ncclSuccess;
}

void enter(Stack& stack, Call& call, call::ThreadState& thread, const Admission& admission) {
  call.target = admission.tables;
  call.lane = admission.lane;
  stack.count_call(thread);
  stack.boundary().enter(call, thread, stack.engine());
  thread.target = admission.lane == abi::Lane::kProcess ? admission.tables : nullptr;
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
  if (ends_comm(function)) stack.saw_ending(call);
  if constexpr (std::is_void_v<R>) {
    through(stack.top(), &call);
    stack.boundary().leave(call, thread, ncclSuccess);
  } else {
    const R returned = through(stack.top(), &call);
    const ncclResult_t result = result_of(returned);
    stack.count_error(call, result);
    stack.boundary().leave(call, thread, result);
    created.after(stack, call, thread, result);
    return returned;
  }
}

// One entry: decides whether the call is the application's. Nothing thrown below leaves it.
template <typename R, typename Caller, typename Direct, typename Through, typename Fill,
          typename Created>
[[gnu::always_inline]] inline R entry(FunctionId function, Caller caller, Direct direct,
                                      Through through, Fill fill, Created created) {
  Stack& stack = *Stack::current();
  call::ThreadState& thread = call::thread_state();
  // The first call of whoever uses a copy of the library that came later (C1).
  if (Created::kCreates || function == FunctionId::kGetUniqueId) stack.before_creation();
  const Admission admission = caller.admit(stack, thread);
  if (admission.direct != nullptr) return direct(*admission.direct);
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
  const ncclResult_t* async_error;
  void after(Stack& stack, const Call& call, call::ThreadState&, ncclResult_t result) const {
    if (async_error != nullptr && result == ncclSuccess) stack.saw_async_error(call, async_error);
  }
};

struct CommsCreated {
  static constexpr bool kCreates = true;
  call::Creation creation;
  void after(Stack& stack, const Call& call, call::ThreadState& thread, ncclResult_t result) const {
    stack.boundary().created(call, thread, result, creation);
    if (result == ncclSuccess) stack.after_creation();
    if (result == ncclSuccess && call.group_depth == 0) stack.prepare(call, creation);
    if (result == ncclSuccess || result == ncclInProgress) stack.saw_creation(call, creation);
  }
};

#define SABOT_BRIDGE_WITH(prefix, name, ret, caller, creation)                                \
  ret prefix##name(SABOT_PARAMS_##name) {                                                     \
    return entry<ret>(                                                                        \
        FunctionId::k##name, caller,                                                          \
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
#define SABOT_BRIDGE(name, ret)                                                       \
  SABOT_BRIDGE_WITH(bridge_, name, ret, FromApplication{__builtin_return_address(0)}, \
                    (NothingCreated{reported(SABOT_ARGS_##name)}))                    \
  SABOT_BRIDGE_WITH(beside_, name, ret, FromBeside{}, (NothingCreated{reported(SABOT_ARGS_##name)}))
SABOT_ORDINARY(SABOT_BRIDGE)
#undef SABOT_BRIDGE
#define SABOT_BRIDGE(name, ret)                                                       \
  SABOT_BRIDGE_WITH(bridge_, name, ret, FromApplication{__builtin_return_address(0)}, \
                    (CommsCreated{{SABOT_CREATED_##name}}))                           \
  SABOT_BRIDGE_WITH(beside_, name, ret, FromBeside{}, (CommsCreated{{SABOT_CREATED_##name}}))
SABOT_CREATORS(SABOT_BRIDGE)
#undef SABOT_BRIDGE

#define SABOT_HOSTED(name, ret)                                                        \
  ret hosted_##name(SABOT_PARAMS_##name) {                                             \
    void* const to = host_entries[static_cast<std::size_t>(FunctionId::k##name)].load( \
        std::memory_order_acquire); /* pairs with: publish_host */                     \
    return reinterpret_cast<ret (*)(SABOT_PARAMS_##name)>(to)(SABOT_ARGS_##name);      \
  }
SABOT_API(SABOT_HOSTED)
#undef SABOT_HOSTED

}  // namespace

#define SABOT_SLOT(name, ret) &bridge_##name,
constexpr abi::FunctionTable kBridge = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
#define SABOT_SLOT(name, ret) &beside_##name,
constexpr abi::FunctionTable kBesideBridge = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
#define SABOT_SLOT(name, ret) &hosted_##name,
constexpr abi::FunctionTable kHosted = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT

}  // namespace sabot::stack
