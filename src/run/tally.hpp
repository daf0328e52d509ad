// What a process has counted, in one mapped file that survives even SIGKILL: tally/HOST.PID.
//
// The process owns a MAP_SHARED page and adds to it with relaxed atomics, without a system call;
// the launcher reads all pages after the end. For each fault there is a slot of opaque bytes, which
// scenario::FaultTally fills with how far the triggers came. The layout is plain data: magic,
// version and sizes first, so that a reader refuses what it does not know. Disk blocks are
// allocated at opening, as writing to a hole of a full disk would end somebody else's process with
// SIGBUS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace sabot::run {

inline constexpr std::size_t kTallySlotBytes = 256;
inline constexpr std::uint32_t kTallyFaultsMax = 1024;
inline constexpr std::uint32_t kTallyVersion = 1;

struct alignas(64) TallySlot {
  unsigned char bytes[kTallySlotBytes];
};

struct alignas(64) TallyPage {
  char magic[8];  // "SABOTTLY"
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

  TallySlot* slots() { return reinterpret_cast<TallySlot*>(this + 1); }
  const TallySlot* slots() const { return reinterpret_cast<const TallySlot*>(this + 1); }
};
static_assert(sizeof(TallySlot) == kTallySlotBytes && sizeof(TallyPage) == 128);
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
  Status open(const std::string& folder, const std::string& tag, std::uint32_t fault_count,
              std::uint64_t plan_hash);
  // Precondition: open() was called. Any thread.
  TallyPage& page() { return *page_.load(); }
  TallySlot& slot(std::size_t index) { return page().slots()[index]; }

  // In the child of a fork, async-signal-safe: counts go to private memory from here on.
  void after_fork_child() noexcept;

 private:
  std::atomic<TallyPage*> page_{nullptr};
  TallyPage* spare_ = nullptr;  // private memory of the same size, prepared before any fork
  std::size_t bytes_ = 0;
};

}  // namespace sabot::run
