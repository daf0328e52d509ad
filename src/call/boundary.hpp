// Fills and numbers the one Call that every layer sees, and keeps the registry in step with what
// returns.
//
// enter() runs before the layers, leave() after them; created() is told of every call that made
// communicators. Handles born inside a group are only valid once the outermost GroupEnd succeeds,
// so they wait in a list of this thread until then. Numbers are counted here and nowhere else
// (docs/concepts.md).
#pragma once

#include <cstdint>

#include "abi/names.hpp"
#include "call/last_error.hpp"
#include "call/registry.hpp"
#include "call/thread_state.hpp"

namespace sabot::call {

// What a creating function was given; expanded from SABOT_CREATED_X of the API spec.
struct Creation {
  ncclComm_t* where = nullptr;
  int count = 0;  // handles at `where`
  const ncclConfig_t* config = nullptr;
  const ncclUniqueId* id = nullptr;
};

inline OpenGroup& open_group(const abi::Call& call, ThreadState& thread) {
  return thread.open[static_cast<std::size_t>(call.lane)];
}

class Boundary {
 public:
  Boundary(int environment_rank, int attempt) : registry_(environment_rank), attempt_(attempt) {}

  Registry& registry() { return registry_; }

  // Precondition: function and the argument fields of call are filled. Thread-safe.
  void enter(abi::Call& call, ThreadState& thread, const abi::Api& engine);
  // result: what the application is given; ncclSuccess for functions that return no result.
  void leave(const abi::Call& call, ThreadState& thread, ncclResult_t result);
  void created(const abi::Call& call, ThreadState& thread, ncclResult_t result,
               const Creation& creation);

 private:
  static void enter_group_fields(abi::Call& call, OpenGroup& open);
  CommRecord* record_for(abi::Call& call, ThreadState& thread, const abi::Api& engine,
                         const abi::FunctionInfo& function);
  CommRecord* find_or_adopt(const abi::Call& call);
  static std::uint64_t next_number(std::atomic<std::uint64_t>& counter);
  void close_group(const abi::Call& call, ThreadState& thread, ncclResult_t result);

  Registry registry_;
  int attempt_;
};

// Inline from here: these run on every call, and an armed call may cost no more than 25 ns
// (bench/run.py, "log off, fault armed elsewhere").

// A load and a store instead of one locked instruction: NCCL forbids concurrent enqueues on one
// communicator, so only concurrent polls could lose a number.
// relaxed: a number orders nothing but itself
inline std::uint64_t Boundary::next_number(std::atomic<std::uint64_t>& counter) {
  const std::uint64_t number = counter.load(std::memory_order_relaxed) + 1;
  counter.store(number, std::memory_order_relaxed);
  return number;
}

inline CommRecord* Boundary::record_for(abi::Call& call, ThreadState& thread,
                                        const abi::Api& engine, const abi::FunctionInfo& function) {
  if (call.comm == nullptr) return nullptr;
  CommRecord* record = thread.last;
  // Records are never freed, so that the remembered one can be asked whether it still is the right
  // one.
  if (record == nullptr || record->handle != call.comm ||
      !record->live.load(std::memory_order_acquire)) {  // pairs with: create, retire
    record = find_or_adopt(call);
    if (record == nullptr) return nullptr;
    thread.last = record;
  }
  const bool is_ready = abi::enqueues(function.kind) || function.kind == abi::Kind::query;
  if (record->rank.load(std::memory_order_relaxed) < 0 && is_ready)
    Registry::ask_ranks(*record, engine, call);
  return record;
}

inline void Boundary::enter(abi::Call& call, ThreadState& thread, const abi::Api& engine) {
  thread.error_texts = last_error_count();
  call.thread = thread.thread;
  call.attempt = attempt_;
  if (call.has_count && call.datatype >= 0)
    call.bytes = call.count * abi::datatype_bytes(call.datatype);
  const abi::FunctionInfo& function = abi::info(call.function);
  call.in_place = call.send != nullptr && call.send == call.recv;
  OpenGroup& open = open_group(call, thread);
  call.group_depth = open.depth;
  if (open.depth != 0) enter_group_fields(call, open);
  CommRecord* record = record_for(call, thread, engine, function);
  if (record == nullptr) {
    call.world_rank = registry_.environment_rank();
    record = &registry_.nowhere();
  } else {
    call.comm_label = record->label;
    call.comm_name = record->name;
    call.rank = record->rank.load(std::memory_order_relaxed);
    call.comm_ranks = record->ranks.load(std::memory_order_relaxed);
    call.world_rank = record->world_rank.load(std::memory_order_relaxed);
    call.nonblocking = record->nonblocking;
    if (function.kind == abi::Kind::collective)
      call.nth_collective = next_number(record->collectives);
  }
  // Retired before it is forwarded: the library may hand out the address again before this call
  // returns.
  if (function.kind == abi::Kind::destroy || function.kind == abi::Kind::abort)
    registry_.retire(call.comm);
  call.nth = next_number(record->nth[static_cast<std::size_t>(call.function)]);
}

}  // namespace sabot::call
