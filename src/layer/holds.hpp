// All waits that faults made in this process, and what ends them (B18).
//
// A hold ends by its limit, by `sabot ctl release`, at exit, or with its communicator: whoever is
// about to end one releases its holds first, because the library would wait for a held stream for
// ever. Calls held in a thread then return without having been made, and the communicator's end
// waits until they have left. Waiting threads look at the hold's word and at the release counts of
// the control page in slices of at most 5 ms. Thread-safe; no lock is held while anybody waits.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "abi/call.hpp"
#include "layer/hold.hpp"

namespace sabot::layer {

// Whether `sabot ctl` has released this fault's holds since it began; the control page's count.
class Releases {
 public:
  virtual ~Releases() = default;
  virtual std::uint64_t count(FaultId fault) const = 0;
};

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

  // Null: nobody can release by name. Outlives this.
  void set_releases(const Releases* releases) { releases_.store(releases); }

  // A hold for a stream, known from now on.
  std::shared_ptr<Hold> add(Hold::Word word, const abi::Call& call, FaultId fault,
                            std::uint64_t limit_ns);
  // It was not put on its stream after all.
  void drop(const std::shared_ptr<Hold>& hold);

  // A call held in this thread. Where stay() says false the communicator has ended, and the call
  // is not to be made. The communicator's end waits for the end of this object.
  class Stay {
   public:
    Stay(Holds& holds, const abi::Call& call, FaultId fault);
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    // limit_ns = 0: no limit. Once.
    bool stay(std::uint64_t limit_ns);

   private:
    Holds& holds_;
    std::shared_ptr<Hold> hold_;
    std::uint64_t released_;
  };

  // Before and after the call that ends a communicator is forwarded.
  void ending(const void* comm, Ending how);
  void ended(const void* comm);
  // Lets everything go on that `sabot ctl` released since; called where its page has changed.
  void look_at_releases();
  void let_go(FaultId fault);
  void let_go_all() noexcept;

  // Around a fork; in the child nothing of the parent's is touched again.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void forget() noexcept { is_forgotten_.store(true); }

 private:
  struct Entry {
    std::shared_ptr<Hold> hold;
    bool is_call;            // held in a thread, else on a stream
    std::uint64_t released;  // the release count at its beginning
  };
  std::uint64_t count(FaultId fault) const;
  void release_at_exit();

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::atomic<const Releases*> releases_{nullptr};
  std::atomic<bool> is_forgotten_{false};
};

}  // namespace sabot::layer
