// The fault layer: makes a chosen call go wrong in a chosen way, and keeps NCCL's state as a real
// failure would.
//
// What the firings of one call do is an ordeal (ordeal.hpp); this decides whether the call is made
// and which code the application is given. Outside a group, an error *before* means that the call
// is not forwarded and *after* that it runs first. In a group either comes from the outermost
// GroupEnd: *before* lets the call succeed and drops the group; *after* runs the group first
// (group_faults.hpp, docs/concepts.md). On a communicator created with blocking = 0,
// ncclCommGetAsyncError reports the code from then on; on a blocking one it is untouched, because
// NCCL does not latch synchronous errors either. ncclGetLastError answers with the fault's text
// (call/last_error.hpp). Whoever ends a communicator releases what faults hold of it first (B18).
// Decides nothing: see FaultPlan.
#pragma once

#include <atomic>
#include <memory>

#include "abi/around.hpp"
#include "abi/names.hpp"
#include "call/last_error.hpp"
#include "layer/group_faults.hpp"
#include "layer/ordeal.hpp"
#include "layer/plan/fault_plan.hpp"
#include "layer/registrations.hpp"

namespace sabot::layer {

// What a layer needs from its surroundings; outlives it.
struct FaultSeams {
  std::array<StreamEffects*, abi::kLaneCount> streams{};
  std::array<LinkEffects*, abi::kLaneCount> links{};
  std::array<bool, abi::kLaneCount> is_real{};
  run::Control* control = nullptr;  // null: nobody controls this process
  std::function<void()> on_news;    // the control page has changed; called in an application thread
  // Whether a communicator has ended: from before the call that ends it reaches the layer; null:
  // never.
  std::function<bool(const void*)> is_gone;
  // Whether another rank of this communicator lives in this process; null: never.
  std::function<bool(const abi::Call&)> shares_process;
};

class FaultLayer {
 public:
  FaultLayer(abi::Api next_api, FaultPlan& plan, const FaultSeams& seams = {});

  abi::Api next;

  template <typename R, typename Next, typename Show, typename Edit>
  [[gnu::always_inline]] R around(abi::Call& call, Next&& forward, Show&&, Edit&&) {
    if constexpr (!std::is_same_v<R, ncclResult_t>) {
      return forward();
    } else {
      const bool is_watched = call.group_depth != 0 || plan_.concerns(call.function) ||
                              async_errors_.has_latched() || has_news();
      if (__builtin_expect(is_watched, 0)) return decided(call, forward);
      return forward();
    }
  }

  abi::Api api() { return {&table_, this}; }
  Holds& holds() { return holds_; }

  // The two moments of a call outside groups, also for one that is executed outside the layers.
  // begin(): is_made is false if the library is not to be asked, and result is what it would have
  // said. end(): what the application is given; a real failure comes first.
  struct Begun {
    std::unique_ptr<Ordeal> ordeal;  // null: nothing fired
    bool is_made = true;
    ncclResult_t result = ncclSuccess;
    const Mismatched* other = nullptr;  // with which arguments it is made; null: its own
  };
  Begun begin(abi::Call& call);
  ncclResult_t end(abi::Call& call, Begun& begun, ncclResult_t result);
  // A communicator is about to end, whoever is asked to end it: what faults hold of it is released.
  // holds().ended() follows.
  void begin_end(const void* comm, Ending how);

 private:
  // Kept out of line, so that an armed fault costs the other functions a test and a branch.
  template <typename Forward>
  [[gnu::noinline]] ncclResult_t decided(abi::Call& call, Forward& forward) {
    if (has_news()) hear_news();
    if (call.group_depth != 0) return decided_in_group(call, forward);
    Begun begun = begin(call);
    return end(call, begun, begun.is_made ? made(call, begun, forward) : begun.result);
  }
  template <typename Forward>
  ncclResult_t decided_in_group(abi::Call& call, Forward& forward) {
    const bool is_end = call.function == abi::FunctionId::kGroupEnd ||
                        call.function == abi::FunctionId::kGroupSimulateEnd;
    Begun begun = begin_in_group(call, is_end);
    if (!is_end) return begun.is_made ? made(call, begun, forward) : begun.result;
    if (call.group_depth > 1) return inner_result(call, forward());
    begin_group_work(call);
    return outermost_result(call, forward());
  }
  template <typename Forward>
  ncclResult_t made(abi::Call& call, const Begun& begun, Forward& forward) {
    return begun.other == nullptr ? forward() : forward_other(next, call, *begun.other);
  }
  // relaxed: the page's own load is the one that orders
  bool has_news() const {
    return control_ != nullptr && control_->changed(heard_.load(std::memory_order_relaxed));
  }
  void hear_news();
  // comm: what the call is about where it names none itself.
  std::unique_ptr<Ordeal> considered(abi::Call& call, const void* comm);
  Begun begin_in_group(abi::Call& call, bool is_end);
  Begun begin_with(abi::Call& call, Ordeal& ordeal, GroupFaults& group);
  void begin_group_work(const abi::Call& call);
  void drop(GroupFaults& group, const abi::Call& call);
  static Begun cut_off(abi::Call& call, std::unique_ptr<Ordeal> ordeal);
  static ncclResult_t inner_result(abi::Call& call, ncclResult_t result);
  ncclResult_t outermost_result(abi::Call& call, ncclResult_t result);
  ncclResult_t deliver(abi::Call& call, const Ordeal& ordeal);
  ncclResult_t latched(abi::Call& call) const;

  void announce_end(const abi::Call& call);
  template <typename Forward>
  ncclResult_t ending(const abi::Call& call, bool is_over, Ending how, Forward forward);

  static ncclResult_t get_async_error(void* self, abi::Call* call, ncclComm_t comm,
                                      ncclResult_t* result);
  static const char* get_last_error(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_destroy(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_abort(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_finalize(void* self, abi::Call* call, ncclComm_t comm);
  static ncclResult_t comm_revoke(void* self, abi::Call* call, ncclComm_t comm, int flags);
  static ncclResult_t comm_register(void* self, abi::Call* call, ncclComm_t comm, void* buffer,
                                    size_t size, void** handle);
  static ncclResult_t comm_window_register(void* self, abi::Call* call, ncclComm_t comm,
                                           void* buffer, size_t size, ncclWindow_t* window,
                                           int flags);
  static ncclResult_t comm_shrink(void* self, abi::Call* call, ncclComm_t comm, int* excluded,
                                  int excluded_count, ncclComm_t* newcomm, ncclConfig_t* config,
                                  int flags);

  FaultPlan& plan_;
  abi::ApiTable table_;
  AsyncErrors async_errors_;
  Holds holds_;
  Registrations registrations_;
  Means means_;
  run::Control* const control_;
  const std::function<void()> on_news_;
  std::atomic<std::uint64_t> heard_{0};
};

}  // namespace sabot::layer
