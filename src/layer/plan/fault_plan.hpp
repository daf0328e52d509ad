// The seam between the fault layer, which acts, and whatever decides that it should.
//
// The product's form (armed_plan.hpp) asks a scenario's decider, claims the budget and writes the
// journal before it answers. Tests give answers by hand. An answer is a few firings by value, so
// that a call on which nothing fires allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>

#include "abi/api_table.hpp"
#include "layer/hold/hold.hpp"
#include "scenario/act.hpp"

namespace sabot::layer {

struct Firing {
  scenario::Act act;
  std::uint64_t bits = 0;  // seeded: places, values, jitter
  FaultId fault;
  const char* text = "";  // what ncclGetLastError says; valid until this thread asks again
};

// The firings of one call, in the order of their faults.
class Firings {
 public:
  // More faults than this do not act on one call: they are asked again at their next one.
  static constexpr std::size_t kMax = 8;

  Firings() {}  // NOLINT: leaves the storage uninitialised on purpose; most are empty
  Firings(const Firings& other) { *this = other; }
  Firings& operator=(const Firings& other) {
    if (this == &other) return *this;
    count_ = 0;
    for (const Firing& firing : other) add(firing);
    return *this;
  }

  bool empty() const { return count_ == 0; }
  bool is_full() const { return count_ == kMax; }
  std::size_t size() const { return count_; }
  const Firing* begin() const { return firings_.data(); }
  const Firing* end() const { return firings_.data() + count_; }
  // Precondition: !is_full().
  void add(const Firing& firing) { new (&firings_[count_++]) Firing(firing); }
  // Whether one of them takes the call's place.
  bool has_replacement() const {
    for (const Firing& firing : *this)
      if (scenario::replaces_call(firing.act.kind)) return true;
    return false;
  }

 private:
  std::size_t count_ = 0;
  union {
    std::array<Firing, kMax> firings_;
  };
};
static_assert(std::is_trivially_copyable_v<Firing>);

class FaultPlan {
 public:
  virtual ~FaultPlan() = default;

  // Whether any fault could fire on this function: the rest costs one test of a bit.
  // relaxed: consider() finds out for itself; a fault injected by another thread may be seen a call
  // later
  bool concerns(abi::FunctionId function) const {
    const auto index = static_cast<std::size_t>(function);
    return (words_[index / 64].load(std::memory_order_relaxed) >> index % 64 & 1U) != 0;
  }
  // Whether some fault asks for Call::captured.
  virtual bool asks_captured() const { return false; }
  // From now on nothing concerns it: the child of a fork does not act for its parent.
  // Async-signal-safe.
  void disarm() noexcept {
    for (std::atomic<std::uint64_t>& word : words_) word.store(0);
  }
  // Called once per call that concerns() admits, at its entry. Claims and journals what it adds.
  // Where a firing takes the call's place already, it adds none that would as well.
  virtual void consider(const abi::Call& call, Firings& firings) = 0;
  // What a firing was to do cannot be done: why stands in the journal, and in the log once.
  virtual void refuse(const abi::Call& call, const Firing& firing, const std::string& why) = 0;

 protected:
  static constexpr std::size_t kWords = (abi::kFunctionCount + 63) / 64;
  using FunctionSet = std::array<std::uint64_t, kWords>;

  static void add(FunctionSet& set, abi::FunctionId function) {
    const auto index = static_cast<std::size_t>(function);
    set[index / 64] |= std::uint64_t{1} << index % 64;
  }
  void set_concerns(const FunctionSet& set) {
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(set[i]);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace sabot::layer
