// What a process has counted, in one mapped file that survives even SIGKILL: tally/HOST.PID.
//
// The process owns a MAP_SHARED page and adds to it with relaxed atomics, without a system call;
// the launcher reads all pages after the end. Behind the counters lies one slot a fault, plain data
// of a type that the caller chooses (scenario::FaultTally: how far the triggers came). Magic,
// version and sizes come first, so that a reader refuses what it does not know. Disk blocks are
// allocated at opening, as writing to a hole of a full disk would end somebody else's process with
// SIGBUS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.hpp"

namespace sabot::run {

inline constexpr std::uint32_t kTallySlotBytesMax = 4096;
inline constexpr std::uint32_t kTallyFaultsMax = 1024;
inline constexpr std::uint32_t kTallyVersion = 2;
inline constexpr std::size_t kTallyOwnersMax = 32;
inline constexpr std::uint64_t kTallyMagic = 0x594C54544F424153;  // "SABOTTLY" in the file

struct alignas(64) TallyPage {
  std::atomic<std::uint64_t> magic;  // written last: who sees it sees the other constants
  std::uint32_t version;
  std::uint32_t slot_bytes;
  std::uint32_t fault_count;
  std::int32_t pid;
  std::uint64_t started_ns;  // CLOCK_REALTIME
  std::uint64_t plan_hash;   // of the scenario, so that slots of different scenarios are not merged
  // Counters apart from the constants and on one line: one process's threads share them anyway.
  alignas(64) std::atomic<std::uint64_t> calls_seen;
  std::atomic<std::uint64_t> errors_from_real;
  std::atomic<std::uint64_t> faults_fired;
  // Calls of threads that own a counter: a load and a store instead of a locked addition, whose 6
  // ns count where an armed call may cost 25. Threads without one add to calls_seen.
  alignas(64) std::atomic<std::uint64_t> owned_calls[kTallyOwnersMax];

  std::uint64_t total_calls() const {
    std::uint64_t total = calls_seen.load();
    for (const std::atomic<std::uint64_t>& owned : owned_calls) total += owned.load();
    return total;
  }
  unsigned char* slots() { return reinterpret_cast<unsigned char*>(this + 1); }
  const unsigned char* slots() const { return reinterpret_cast<const unsigned char*>(this + 1); }
};
static_assert(sizeof(TallyPage) == 128 + 8 * kTallyOwnersMax);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A process's page: a file where there is a run folder, private memory otherwise and after a fork,
// so that page() is always there to be counted into.
class Tally {
 public:
  Tally() = default;
  ~Tally();
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // Before the first page(). On an error page() counts into private memory all the same.
  struct Shape {
    std::uint32_t fault_count = 0;
    std::uint32_t slot_bytes = 0;
    std::uint64_t plan_hash = 0;
  };
  Status open(const std::string& folder, const std::string& tag, const Shape& shape);
  // Precondition: open() was called. Any thread.
  TallyPage& page() { return *page_.load(); }
  // The slots as what they are, zeroed at the beginning; invalid after after_fork_child().
  // Precondition: sizeof(T) is the slot_bytes given to open().
  template <typename T>
  std::span<T> slots() {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);
    TallyPage& held = page();
    if (held.slot_bytes != sizeof(T)) return {};
    return {reinterpret_cast<T*>(held.slots()), held.fault_count};
  }

  // In the child of a fork, async-signal-safe: counts go to private memory from here on.
  void after_fork_child() noexcept;

 private:
  std::atomic<TallyPage*> page_{nullptr};
  TallyPage* spare_ = nullptr;  // private memory of the same size, prepared before any fork
  std::size_t bytes_ = 0;
};

}  // namespace sabot::run
