// The seam between the fault layer, which acts, and whatever decides that it should.
//
// The product's form (armed_plan.hpp) asks a scenario's decider, claims the budget and writes the
// journal before it answers. Tests give answers by hand.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "abi/api_table.hpp"

namespace sabot::layer {

struct Firing {
  ncclResult_t result;
  bool before;       // before the real call, else after it
  const char* text;  // what ncclGetLastError says; valid until this thread asks again
};

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
  // From now on nothing concerns it: the child of a fork does not act for its parent.
  // Async-signal-safe.
  void disarm() noexcept {
    for (std::atomic<std::uint64_t>& word : words_) word.store(0);
  }
  // Called once per call that concerns() admits, at its entry. Claims and journals what it returns.
  virtual std::optional<Firing> consider(const abi::Call& call) = 0;

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
