// Calls that no fixed condition can tell apart, looked at once.
//
// A job makes the same few calls over and over. The first call of a class is held against every
// fault; what came out (which faults it meets, which it misses by one condition) is kept under a
// hash of all that the conditions look at, and later calls of the class cost one look-up and one
// addition. The tallies of the faults are brought up to date when a sixty-fourth of what they hold
// is outstanding, so that they are exact while small and never far off, even after a SIGKILL.
//
// The table only grows and has an end: calls that find no place are held against every fault each
// time. Two classes with the same hash would be taken for one; with 64 bits that is less likely
// than a memory error. Thread-safe; nothing allocates, locks or waits after construction.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "abi/function_id.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

inline constexpr std::size_t kCallClassesMax = 256;

// What the fixed conditions say about a class.
struct ClassVerdict {
  static constexpr std::uint8_t kNone = 0xFF;
  abi::FunctionId function{};
  std::int32_t row = -1;  // of the counters; -1: none left
  std::uint64_t met = 0;  // faults of which it meets all fixed conditions
  std::array<std::uint8_t, kFaultsMax> only_failed;  // the condition that alone it fails, or kNone
};

class CallClass {
 public:
  const ClassVerdict& verdict() const { return verdict_; }

  // One more call. True if the tallies are behind by now.
  bool count() {
    // relaxed: numbers of their own; the tallies are read with whatever has arrived
    const std::uint64_t outstanding = pending_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t counted = counted_.load(std::memory_order_relaxed);  // as above
    return outstanding >= counted / 64 + 1;
  }
  // How many calls are outstanding, which belong to the caller from now on.
  std::uint64_t take() {
    const std::uint64_t calls = pending_.exchange(0);
    counted_.fetch_add(calls);
    return calls;
  }

  // Of the faults that the class meets, those that met the moving conditions at the calls that are
  // outstanding. Before it changes, these are to be taken.
  // relaxed: whoever reads an old value tallies a call under the state that just ended
  std::uint64_t passed() const { return passed_.load(std::memory_order_relaxed); }
  void set_passed(std::uint64_t faults) {
    // relaxed: as above
    passed_.store(faults, std::memory_order_relaxed);
  }

 private:
  friend class CallClasses;
  std::atomic<std::uint64_t> key_{0};  // 0: free, 1: being written
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<std::uint64_t> counted_{0};
  std::atomic<std::uint64_t> passed_{0};
  ClassVerdict verdict_;
};

class CallClasses {
 public:
  CallClasses() : classes_(std::make_unique<CallClass[]>(kCallClassesMax)) {}

  // Null if this hash is not known.
  CallClass* find(std::uint64_t hash) {
    const std::uint64_t key = key_of(hash);
    for (std::size_t i = 0; i < kProbesMax; ++i) {
      CallClass& entry = classes_[(key + i) % kCallClassesMax];
      // Acquire: who sees the key must see the verdict.
      const std::uint64_t found = entry.key_.load(std::memory_order_acquire);  // pairs with: insert
      if (found == key) return &entry;
      if (found == 0) return nullptr;
    }
    return nullptr;
  }

  // Keeps the verdict of a class if there is a place for it.
  void insert(std::uint64_t hash, const ClassVerdict& verdict) {
    const std::uint64_t key = key_of(hash);
    for (std::size_t i = 0; i < kProbesMax; ++i) {
      CallClass& entry = classes_[(key + i) % kCallClassesMax];
      std::uint64_t found = 0;
      if (!entry.key_.compare_exchange_strong(found, kBeingWritten)) continue;
      entry.verdict_ = verdict;
      entry.set_passed(verdict.met);
      entry.key_.store(key, std::memory_order_release);  // pairs with: find
      return;
    }
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < kCallClassesMax; ++i)
      if (classes_[i].key_.load() > kBeingWritten) visit(classes_[i]);
  }

 private:
  static constexpr std::uint64_t kBeingWritten = 1;
  static constexpr std::size_t kProbesMax = 8;
  static std::uint64_t key_of(std::uint64_t hash) { return hash > kBeingWritten ? hash : 2; }

  std::unique_ptr<CallClass[]> classes_;
};

}  // namespace sabot::scenario
