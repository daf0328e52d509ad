// What the boundary remembers of one thread: whether it is inside already, and its group.
//
// A plain struct in initial-exec thread-local storage: no constructor, no allocation, no lock, so
// that it can be used from any thread at any time, NCCL's own ones included (boundary rules B6, B8,
// B11).
#pragma once

#include <cerrno>
#include <cstdint>

#include "abi/call.hpp"

namespace sabot::call {

struct CommRecord;

struct OpenGroup {
  int depth;               // open GroupStart calls
  std::uint32_t position;  // calls enqueued so far
  std::uint64_t number;    // of the outermost group, 1-based, over all lanes of the thread
};

struct ThreadState {
  int inside;                       // > 0 between an entry and its return: NCCL is calling itself
  OpenGroup open[abi::kLaneCount];  // by lane
  std::uint64_t groups;             // outermost groups opened so far
  std::uint64_t thread;             // kernel thread id, 0 = not asked yet
  const void* target;               // the tables that the outermost call went to; null: announced
  std::uint64_t error_texts;        // last_error_count() at the entry of the outermost call
  std::uint32_t counter;  // 1-based number of the counter that this thread owns, 0: not asked
  CommRecord* last;       // of the call before: most calls of a thread are on one communicator
};

extern __attribute__((tls_model("initial-exec"))) thread_local constinit ThreadState current_thread;
std::uint64_t ask_thread_id();

inline ThreadState& thread_state() {
  if (__builtin_expect(current_thread.thread == 0, 0)) current_thread.thread = ask_thread_id();
  return current_thread;
}

// Scope of one call that goes through the layers: calls made meanwhile by this thread are not the
// application's.
class Inside {
 public:
  explicit Inside(ThreadState& state) : state_(state) { ++state_.inside; }
  ~Inside() { --state_.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ThreadState& state_;
};

// Keeps errno over a stretch of our own code.
class KeepErrno {
 public:
  KeepErrno() : value_(errno) {}
  ~KeepErrno() { errno = value_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int value_;
};

}  // namespace sabot::call
