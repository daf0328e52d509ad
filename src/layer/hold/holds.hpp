// All waits that faults made in this process, and what ends them (B18).
//
// A hold ends by its limit, by `sabot ctl release`, at exit, or with its communicator: whoever is
// about to end one releases its holds first, because the library would wait for a held stream for
// ever. Calls held in a thread then return without having been made, and the communicator's end
// waits until they have left. Waiting threads look at the hold's word and at the release counts of
// the control page in slices of at most 5 ms; for streams, which cannot look at the page, a thread
// does as long as any of them is held. Thread-safe; no lock is held while anybody waits.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "abi/call.hpp"
#include "layer/hold/hold.hpp"
#include "run/control_page.hpp"

namespace sabot::layer {

// Waits until the hold ends, its limit is over or is_released() says so, asked at least every 5 ms.
// Whether it was let go; else its communicator is gone. While that is being aborted, it waits on.
bool wait_for(Hold& hold, const std::function<bool()>& is_released);

// How a communicator ends.
enum class Ending : std::uint8_t {
  kOrderly,  // destroy, finalize: what a held stream holds back is done first
  kAbort,    // abort, revoke: it is cut off
};

class Holds {
 public:
  // Longest time for which a communicator's end waits for held calls to leave.
  static constexpr std::uint64_t kLeaveMax_ns = 10'000'000'000;
  static constexpr std::uint64_t kSlice_ns = 5'000'000;

  Holds() = default;
  ~Holds();
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // The page by which holds are released by name, and on which they are listed. Outlives this;
  // before the first hold.
  void set_control(run::Control& control) { control_ = &control; }
  // Whether a communicator has ended, true from before ending(): a hold that begins at that moment
  // is over at once. Before the first hold.
  void set_gone(std::function<bool(const void*)> is_gone) { is_gone_ = std::move(is_gone); }

  // A hold for a stream, known from now on.
  std::shared_ptr<Hold> add(Hold::Word word, const abi::Call& call, FaultId fault,
                            std::uint64_t limit_ns);
  // It was not put on its stream after all.
  void drop(const std::shared_ptr<Hold>& hold);

  // Something else that a fault began on this communicator, once per fault and communicator:
  // stop() ends it when it is released by name. It must not come back here.
  void note(const abi::Call& call, FaultId fault, std::function<void()> stop);

  // A call held in this thread. Where stay() says false the communicator has ended, and the call
  // is not to be made. The communicator's end waits for the end of this object.
  class Stay {
   public:
    // limit_ns = 0: no limit.
    Stay(Holds& holds, const abi::Call& call, FaultId fault, std::uint64_t limit_ns);
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    bool stay();

   private:
    Holds& holds_;
    const std::uint64_t released_;
    const std::shared_ptr<Hold> hold_;
  };

  // Calls on this communicator that are held in their threads now.
  std::size_t held_calls(const void* comm);

  // Before and after the call that ends a communicator is forwarded.
  void ending(const void* comm, Ending how);
  void ended(const void* comm);
  void let_go_all() noexcept;

  // Around a fork; in the child nothing of the parent's is touched again.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void forget() noexcept;

 private:
  struct Entry {
    std::shared_ptr<Hold> hold;
    bool is_call;            // held in a thread, else on a stream
    std::uint64_t released;  // the release count at its beginning
    std::unique_ptr<run::Control::Listing> listing{};
    std::function<void()> stop{};
  };
  static bool is_passed_stream(const Entry& entry);
  std::shared_ptr<Hold> enter(Hold::Word word, const abi::Call& call, FaultId fault,
                              std::uint64_t limit_ns, bool is_call);
  std::uint64_t count(FaultId fault) const;
  void release_at_exit();
  std::size_t count_calls(const void* comm) const;  // under mutex_
  void watch();                                     // under mutex_
  void look_at_releases();

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::thread watcher_;
  bool is_watching_ = false;  // under mutex_
  run::Control* control_ = nullptr;
  std::function<bool(const void*)> is_gone_;
  std::atomic<bool> is_forgotten_{false};
};

}  // namespace sabot::layer
