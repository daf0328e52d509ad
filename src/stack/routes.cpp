// Ways past the layers: straight to an engine, to the copy that the caller means, or to a refusal.
#include <atomic>

#include "call/last_error.hpp"
#include "stack/bridge.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

std::atomic<const char*> refusal_text{"Sabot has no engine"};

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
  if (const char* text = call::take_last_error()) return text;
  const Destination to = Stack::current()->real()->destination(__builtin_return_address(0));
  return (to.passes ? to.tables->own : to.tables->next).call.GetLastError(comm);
}

const char* watching_host_GetLastError(ncclComm_t comm) {
  if (const char* text = call::take_last_error()) return text;
  const abi::Api engine = Stack::current()->host();
  return engine.table->GetLastError(engine.self, nullptr, comm);
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

constexpr abi::FunctionTable watching_host_table() {
  abi::FunctionTable table{};
  table.call.GetLastError = &watching_host_GetLastError;
  return table;
}

#define SABOT_HOST(name, ret)                                               \
  ret host_##name(SABOT_PARAMS_##name) {                                    \
    const abi::Api engine = Stack::current()->host();                       \
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

#define SABOT_SLOT(name, ret) &routed_##name,
constexpr abi::FunctionTable kRouted = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
constexpr abi::FunctionTable kWatching = watching_table();
constexpr abi::FunctionTable kWatchingHost = watching_host_table();
#define SABOT_SLOT(name, ret) &host_##name,
constexpr abi::FunctionTable kHostDirect = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT
#define SABOT_SLOT(name, ret) &refusing_##name,
constexpr abi::FunctionTable kRefusing = {{SABOT_API(SABOT_SLOT)}};
#undef SABOT_SLOT

void set_refusal(const char* text) { refusal_text.store(text); }

}  // namespace sabot::stack
