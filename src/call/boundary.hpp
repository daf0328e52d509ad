// Fills and numbers the one Call that every layer sees, and keeps the registry in step with what returns.
//
// enter() runs before the layers, leave() after them; created() is told of every call that made
// communicators. Handles born inside a group are only valid once the outermost GroupEnd succeeds, so they
// wait in a list of this thread until then. Numbers are counted here and nowhere else (DESIGN §6).
#pragma once

#include <cstdint>

#include "call/registry.hpp"
#include "call/thread_state.hpp"

namespace sabot::call {

// What a creating function was given; expanded from SABOT_CREATED_X of the API spec.
struct Creation {
  ncclComm_t* where = nullptr;
  int count = 0;                       // handles at `where`
  const ncclConfig_t* config = nullptr;
  const ncclUniqueId* id = nullptr;
};

class Boundary {
 public:
  Boundary(int environment_rank, int attempt) : registry_(environment_rank), attempt_(attempt) {}

  Registry& registry() { return registry_; }

  // Precondition: function and the argument fields of call are filled. Thread-safe.
  void enter(abi::Call& call, ThreadState& thread, const abi::Api& engine);
  // result: what the application is given; ncclSuccess for functions that return no result.
  void leave(const abi::Call& call, ThreadState& thread, ncclResult_t result);
  void created(const abi::Call& call, ThreadState& thread, ncclResult_t result, const Creation& creation);

 private:
  void enter_group_fields(abi::Call& call, ThreadState& thread);
  CommRecord* record_for(abi::Call& call, const abi::Api& engine);
  void close_group(ThreadState& thread, ncclResult_t result);

  Registry registry_;
  int attempt_;
};

}  // namespace sabot::call
