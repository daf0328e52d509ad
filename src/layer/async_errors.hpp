// What ncclCommGetAsyncError reports because a fault says so, by communicator.
//
// Two kinds: a synchronous error of a communicator with blocking = 0, which it reports at once; and
// an asynchronous one (`async_error`), which may be due later, and which later enqueues return too,
// as NCCL's do. Polling is lock-free; while no asynchronous error stands, a call costs one load.
// Thread-safe.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace sabot::layer {

class AsyncErrors {
 public:
  static constexpr std::size_t kMax = 64;  // communicators with an error at one time

  // A synchronous error, also to be seen by polling.
  void note(const void* comm, ncclResult_t result) { set(comm, result, 0, false, ""); }
  // From due_ns (monotonic) on, by polling and by enqueues. False: too many communicators have one.
  bool latch(const void* comm, ncclResult_t result, std::uint64_t due_ns, std::string_view text) {
    return set(comm, result, due_ns, true, text);
  }
  void forget(const void* comm);

  // ncclSuccess: none.
  ncclResult_t polled(const void* comm) const;
  // relaxed: who latched it, or heard of it, sees it
  bool has_latched() const { return latched_.load(std::memory_order_relaxed) != 0; }
  // What an enqueue on it returns; ncclGetLastError's text is set then.
  ncclResult_t enqueued(const void* comm) const;

 private:
  static constexpr std::size_t kTextMax = 256;
  struct Entry {
    std::atomic<const void*> comm{nullptr};
    std::atomic<int> result{0};
    std::atomic<std::uint64_t> due_ns{0};
    std::atomic<bool> is_latched{false};
    std::array<char, kTextMax> text{};  // written once, before is_latched
  };

  bool set(const void* comm, ncclResult_t result, std::uint64_t due_ns, bool is_latched,
           std::string_view text);
  const Entry* due(const void* comm) const;

  std::array<Entry, kMax> entries_{};
  std::atomic<std::uint32_t> latched_{0};
};

}  // namespace sabot::layer
