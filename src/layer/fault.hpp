// The fault layer: makes a chosen call return a chosen error, and keeps NCCL's state as a real
// error would.
//
// Outside a group, *before* means that the call is not forwarded and *after* that it runs first.
// Inside a group, calls only enqueue, so the application hears of either from the outermost
// GroupEnd: *before* lets the call succeed, forwards none of this thread's later calls, makes the
// library drop what it already holds, and the outermost GroupEnd returns the code; *after* runs the
// group first (docs/concepts.md). On a communicator created with blocking = 0,
// ncclCommGetAsyncError reports the code from then on; on a blocking one it is untouched, because
// NCCL does not latch synchronous errors either. ncclGetLastError answers with the fault's text
// (call/last_error.hpp). Decides nothing: see FaultPlan.
#pragma once

#include <array>
#include <atomic>

#include "abi/around.hpp"
#include "abi/names.hpp"
#include "call/last_error.hpp"
#include "layer/fault_plan.hpp"

namespace sabot::layer {

class FaultLayer {
 public:
  FaultLayer(abi::Api next_api, FaultPlan& plan);

  abi::Api next;

  template <typename R, typename Next, typename Show, typename Edit>
  [[gnu::always_inline]] R around(abi::Call& call, Next&& forward, Show&&, Edit&&) {
    if constexpr (!std::is_same_v<R, ncclResult_t>) {
      return forward();
    } else {
      const bool is_watched = call.group_depth != 0 || plan_.concerns(call.function);
      if (__builtin_expect(is_watched, 0)) return decided(call, forward);
      return forward();
    }
  }

  abi::Api api() { return {&table_, this}; }

  // The two moments of a call outside groups, also for one that is executed outside the layers:
  // whether a fault fires at its entry, and what the application is given where one did.
  std::optional<Firing> consider(const abi::Call& call) {
    return plan_.concerns(call.function) ? plan_.consider(call) : std::nullopt;
  }
  // result: of the real call, ncclSuccess if it was not made. A real failure comes first.
  ncclResult_t conclude(abi::Call& call, const Firing& firing, ncclResult_t result) {
    const bool has_failed = result != ncclSuccess && result != ncclInProgress;
    return has_failed && !firing.before ? result : deliver(call, firing);
  }

 private:
  static constexpr std::size_t kAsyncMax = 64;  // non-blocking communicators with an injected error
  struct AsyncError {
    std::atomic<const void*> comm{nullptr};
    std::atomic<int> result{0};
  };

  // Kept out of line, so that an armed fault costs the other functions a test and a branch.
  template <typename Forward>
  [[gnu::noinline]] ncclResult_t decided(abi::Call& call, Forward& forward) {
    if (call.group_depth == 0) return alone(call, forward);
    if (call.function == abi::FunctionId::kGroupEnd ||
        call.function == abi::FunctionId::kGroupSimulateEnd)
      return group_end(call, forward);
    return in_group(call, forward);
  }
  template <typename Forward>
  ncclResult_t alone(abi::Call& call, Forward& forward) {
    const std::optional<Firing> firing = consider(call);
    if (!firing) return forward();
    return conclude(call, *firing, firing->before ? ncclSuccess : forward());
  }
  template <typename Forward>
  ncclResult_t in_group(const abi::Call& call, Forward& forward) {
    remember(call);
    if (swallows(call)) return ncclSuccess;
    note_forwarded(call);
    return forward();
  }
  template <typename Forward>
  ncclResult_t group_end(abi::Call& call, Forward& forward) {
    remember(call);
    const ncclResult_t result = forward();
    return call.group_depth > 1 ? inner_result(call, result) : outermost_result(call, result);
  }

  // Records a firing of this call in the open group; makes the library drop the group if it is
  // *before*.
  void remember(const abi::Call& call);
  bool swallows(const abi::Call& call) const;
  void note_forwarded(const abi::Call& call);
  static ncclResult_t inner_result(abi::Call& call, ncclResult_t result);
  ncclResult_t outermost_result(abi::Call& call, ncclResult_t result);
  ncclResult_t deliver(abi::Call& call, const Firing& firing);
  void spoil_group(const abi::Call& call);
  void set_async(const void* comm, ncclResult_t result);
  ncclResult_t async_of(const void* comm) const;
  void forget_async(const void* comm);

  static ncclResult_t get_async_error(void* self, abi::Call* call, ncclComm_t comm,
                                      ncclResult_t* result);
  static const char* get_last_error(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_destroy(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_abort(void* self, abi::Call* call, ncclComm_t comm);

  FaultPlan& plan_;
  abi::ApiTable table_;
  std::array<AsyncError, kAsyncMax> async_{};
};

}  // namespace sabot::layer
