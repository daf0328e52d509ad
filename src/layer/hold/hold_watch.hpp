// Ends the holds on CUDA streams whose limit is over, and finds out which ones the GPU has passed.
//
// The GPU writes a word when it arrives at a hold and another when it leaves; a thread of ours
// reads the words and the clock, and lets go by a store. It makes no call of the driver's, so that
// it can disturb no capture, and it exists only while something is held. HoldWatch is thread-safe.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "driver/gpu.hpp"
#include "layer/hold/hold.hpp"

namespace sabot::layer {

// What is held, and what is due: the decisions, without thread and clock.
class HeldStreams {
 public:
  // How soon an arrival is noticed, hence how much too long a delay can be; how soon a departure.
  static constexpr std::uint64_t kArrivalSlice_ns = 50'000;
  static constexpr std::uint64_t kDepartureSlice_ns = 5'000'000;

  // cell: the hold's, alive as long as the hold. by_gpu: the stream itself minds the limit.
  void add(std::shared_ptr<Hold> hold, driver::GateCell& cell, bool by_gpu);
  // Does all that is due at this time; when to look next, in ns from now.
  std::uint64_t look(std::uint64_t now_ns);
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::shared_ptr<Hold> hold;
    driver::GateCell* cell;
    std::uint64_t limit_ns;    // 0: none that we mind
    std::uint64_t due_ns = 0;  // once it has arrived
    bool has_arrived = false;
  };
  std::vector<Entry> entries_;
};

class HoldWatch {
 public:
  HoldWatch() = default;
  // Watches nothing any more, and waits for the thread, which never waits for a GPU.
  ~HoldWatch();
  HoldWatch(const HoldWatch&) = delete;
  HoldWatch& operator=(const HoldWatch&) = delete;

  // A hold is about to be put on a stream: from here on the thread runs. Then add() or cancel().
  // kSystem: there is no thread to be had.
  Status expect();
  void cancel();
  void add(std::shared_ptr<Hold> hold, driver::GateCell& cell, bool by_gpu);

  bool is_running() const;

 private:
  void run();

  mutable std::mutex mutex_;
  // On the heap: a forked child, which has no thread that waits in it, must not destroy it.
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  HeldStreams held_;
  std::size_t expected_count_ = 0;
  bool is_running_ = false;
  bool is_stopped_ = false;
  std::thread thread_;  // the last one; it may have ended
  pid_t process_ = 0;   // in which it was made: a forked child has no such thread
};

}  // namespace sabot::layer
