// Handles that can be checked: a table of slots whose addresses are given out as opaque pointers.
//
// A handle is the address of a slot in one reserved range, so that any pointer at all can be judged
// without touching it: outside the range or between slots it is foreign. A slot is never unmapped
// and holds, in one atomic word, its state and how many callers are inside; the body is freed by
// whoever leaves last after it was retired. So a check is a subtraction and one atomic addition, no
// lock, and a handle used after its end meets a tombstone instead of freed memory. Tombstones last
// until the slot is used again, kTombstonesMin retirements later at least.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/result.hpp"

// Present in sanitized builds only: a leak checker does not look for pointers in mapped memory.
extern "C" void __lsan_register_root_region(const void* begin, std::size_t bytes)
    __attribute__((weak));

namespace sabot::comm {

enum class SlotState : std::uint8_t {
  kUnused = 0,
  kLive,
  kDestroyed,
  kAborted,
  kFailed,  // its creation failed
};

// The range of one table; ranges are remembered for ever, so that a forked child recognises handles
// of its parent.
struct HandleRange {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  pid_t owner = 0;
  const HandleRange* next = nullptr;
};

template <typename Body>
class SlotTable {
 public:
  static constexpr std::size_t kSlots = 1 << 16;
  static constexpr std::size_t kTombstonesMin = 1024;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> word{0};  // users, state, and whether the body is still there
    std::atomic<Body*> body{nullptr};
    SlotTable* table = nullptr;
  };

  // A caller inside a live slot; the body stays until the last one leaves.
  class Ref {
   public:
    Ref() = default;
    explicit Ref(Slot* slot) : slot_(slot) {}
    Ref(Ref&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
      if (this != &other) {
        reset();
        slot_ = std::exchange(other.slot_, nullptr);
      }
      return *this;
    }
    Ref(const Ref& other) : slot_(other.slot_) {
      if (slot_ != nullptr) slot_->word.fetch_add(1);
    }
    Ref& operator=(const Ref& other) { return *this = Ref(other); }
    ~Ref() { reset(); }

    explicit operator bool() const { return slot_ != nullptr; }
    Body* get() const { return slot_->body.load(); }
    Body* operator->() const { return get(); }
    Body& operator*() const { return *get(); }
    void* handle() const { return slot_; }
    // Callers inside, this one included.
    std::uint32_t users() const { return static_cast<std::uint32_t>(slot_->word.load()); }
    // Ends the handle; false if somebody has done so already.
    bool retire(SlotState how) {
      std::uint64_t seen = slot_->word.load();
      while (state_of(seen) == SlotState::kLive) {
        const std::uint64_t ended = (seen & ~kStateMask) | state_bits(how);
        if (slot_->word.compare_exchange_weak(seen, ended)) return true;
      }
      return false;
    }
    void reset() {
      if (slot_ != nullptr) leave(std::exchange(slot_, nullptr));
    }

   private:
    Slot* slot_ = nullptr;
  };

  explicit SlotTable(std::atomic<const HandleRange*>& ranges) {
    const std::size_t bytes = kSlots * sizeof(Slot);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;  // add() says so
    if (&__lsan_register_root_region != nullptr) __lsan_register_root_region(memory, bytes);
    slots_ = static_cast<Slot*>(memory);
    bytes_ = bytes;
    auto range = std::make_unique<HandleRange>();
    *range = {reinterpret_cast<std::uintptr_t>(memory), bytes, ::getpid(), ranges.load()};
    while (!ranges.compare_exchange_weak(range->next, range.get())) {
    }
    range.release();  // NOLINT: remembered for ever
  }
  // Tables live as long as their process.
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // The caller is inside the new slot.
  Result<Ref> add(std::unique_ptr<Body> body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = nullptr;
    if (ended_.size() >= kTombstonesMin || used_ == kSlots) {
      if (!ended_.empty()) slot = ended_.front();
      if (slot != nullptr) ended_.pop_front();
    }
    if (slot == nullptr && bytes_ != 0 && used_ < kSlots) slot = slots_ + used_++;
    if (slot == nullptr) {
      return Error(Code::kSystem, bytes_ == 0 ? "no memory for handles"
                                              : "65536 handles are in use; destroy some");
    }
    slot->table = this;
    slot->body.store(body.release());
    // Users that are just about to leave the tombstone stay counted.
    slot->word.fetch_add(1);
    std::uint64_t seen = slot->word.load();
    const std::uint64_t live = state_bits(SlotState::kLive) | kHasBody;
    while (!slot->word.compare_exchange_weak(seen, (seen & kUsersMask) | live)) {
    }
    return Ref(slot);
  }

  // Empty if the handle is not live in this table.
  Ref enter(const void* handle) {
    Slot* slot = find(handle);
    if (slot == nullptr) return Ref();
    const std::uint64_t before = slot->word.fetch_add(1);
    if (state_of(before) == SlotState::kLive) [[likely]]
      return Ref(slot);
    leave(slot);
    return Ref();
  }

  // kUnused for whatever is not a handle of this table.
  SlotState state(const void* handle) const {
    const Slot* slot = find(handle);
    return slot == nullptr ? SlotState::kUnused : state_of(slot->word.load());
  }

 private:
  static constexpr std::uint64_t kUsersMask = 0xffff'ffff;
  static constexpr std::uint64_t kStateMask = 0xffull << 32;
  static constexpr std::uint64_t kHasBody = 1ull << 40;

  static constexpr std::uint64_t state_bits(SlotState state) {
    return static_cast<std::uint64_t>(state) << 32;
  }
  static constexpr SlotState state_of(std::uint64_t word) {
    return static_cast<SlotState>(word >> 32 & 0xff);
  }

  Slot* find(const void* handle) const {
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(slots_);
    if (offset >= bytes_ || offset % sizeof(Slot) != 0) return nullptr;
    return slots_ + offset / sizeof(Slot);
  }

  // The last to leave a retired slot claims the body by clearing kHasBody, which only one can do.
  static void leave(Slot* slot) {
    std::uint64_t now = slot->word.fetch_sub(1) - 1;
    if (now >> 32 == (state_bits(SlotState::kLive) | kHasBody) >> 32) [[likely]]
      return;
    if ((now & kUsersMask) != 0 || (now & kHasBody) == 0) return;
    if (!slot->word.compare_exchange_strong(now, now & ~kHasBody)) return;
    delete slot->body.exchange(nullptr);
    SlotTable* table = slot->table;
    const std::lock_guard<std::mutex> lock(table->mutex_);
    table->ended_.push_back(slot);
  }

  Slot* slots_ = nullptr;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::deque<Slot*> ended_;  // oldest first
};

}  // namespace sabot::comm
