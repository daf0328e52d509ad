// One wait that a fault made, in a calling thread or on a stream.
//
// What waits looks at one word; whoever ends the wait stores into it, once, and the word never
// goes back. The word may lie in memory that a GPU reads (StreamEffects::make_word), so the state
// is nothing but that word: a GPU goes on as soon as it is not 0, a stream of the host engine
// waits for an abort to be over as well. Who knows of all holds and ends them is holds.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace sabot::layer {

// A fault by its place: plan 0 is the scenario of the process, those below run::kControlPlansMax
// were added to the run, the others are injections.
struct FaultId {
  std::uint32_t plan = 0;
  std::uint32_t index = 0;
  bool operator==(const FaultId&) const = default;
};

class Hold {
 public:
  enum State : std::uint32_t {
    kHeld = 0,
    kLetGo = 1,     // the work behind it is done after all
    kAborting = 2,  // its communicator is being aborted: a GPU goes on, other streams still wait
    kEnded = 3,     // its communicator is gone: a held call is not made any more
  };
  using Word = std::shared_ptr<std::atomic<std::uint32_t>>;

  // limit_ns: from the moment the waiting begins, 0 for none.
  Hold(Word word, const void* comm_held, FaultId by, std::uint64_t limit)
      : comm(comm_held), fault(by), limit_ns(limit), word_(std::move(word)) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  const void* const comm;  // null: the call has none
  const FaultId fault;
  const std::uint64_t limit_ns;

  State state() const { return static_cast<State>(word_->load()); }
  // Only forward: a hold that was let go stays so.
  void end(State to) {
    std::uint32_t now = word_->load();
    while (now < to && !(now == kLetGo && to > kLetGo) && !word_->compare_exchange_weak(now, to)) {
    }
  }
  std::atomic<std::uint32_t>& word() { return *word_; }

  // Nobody waits for the word any more, be it that the limit was reached. Set by who waited, or by
  // who put the wait on a stream and found that the stream has passed it; the hold is forgotten
  // then.
  bool is_over() const { return is_over_.load(); }
  void set_over() { is_over_.store(true); }

 private:
  const Word word_;
  std::atomic<bool> is_over_{false};
};

}  // namespace sabot::layer
