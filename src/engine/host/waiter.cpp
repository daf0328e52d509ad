// The waiting policy: spin, give way, nap.
//
// Numbers, measured on 2-core virtual machines: a flag exchange between two running ranks takes
// 0.14 us, a hand-over by sched_yield 0.66 us, waking a sleeper on another processor 35 us and
// more. So nothing that wakes is on the fast path, and a sleeper wakes itself: after naps of 1/16
// of what it has waited, at most 1 ms, which costs below 5 % of a processor after 10 ms and adds at
// most 1/16 to any wait.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "engine/host/endpoint.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {
namespace {

// A round is about 25 ns, so at most 5 us: where nobody else wants the processor, giving way costs
// only 0.3 us a round; where somebody does, it may be the very peer that is waited for.
constexpr std::uint32_t kSpinsMax = 200;
constexpr std::uint32_t kSpinsMin = 8;
// A wait that ends so soon after giving way ended because of it: the peer shares this processor,
// whatever the affinity masks promise.
constexpr std::uint32_t kYieldsThatHelp = 8;
constexpr std::uint32_t kRoundsPerClockRead = 32;  // a clock read costs 20 to 50 ns
constexpr std::uint64_t kAwakeNs = 1'000'000;
constexpr std::uint64_t kNapNsMin = 50'000;
constexpr std::uint64_t kNapNsMax = 1'000'000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What the waits of this process have learnt. Relaxed: a hint, nothing hangs on it.
std::atomic<std::uint32_t> learnt_spins{kSpinsMax};

void nap(std::uint64_t ns) {
  const timespec duration{0, static_cast<long>(ns)};
  nanosleep(&duration, nullptr);
}

}  // namespace

std::uint64_t now_ns() { return monotonic_ns(); }

void Waiter::begin() {
  rounds_ = 0;
  spins_ = oversubscribed_ ? 0 : learnt_spins.load(std::memory_order_relaxed);
}

void Waiter::end() const {
  if (oversubscribed_ || rounds_ == 0) return;
  if (rounds_ <= spins_) {
    if (spins_ < kSpinsMax)
      learnt_spins.store(std::min(spins_ + kSpinsMin, kSpinsMax), std::memory_order_relaxed);
  } else if (rounds_ <= spins_ + kYieldsThatHelp && spins_ > kSpinsMin) {
    learnt_spins.store(std::max(spins_ / 2, kSpinsMin), std::memory_order_relaxed);
  }
}

void Waiter::pause() {
  const std::uint32_t round = rounds_++;
  if (round < spins_) {
    relax();
    return;
  }
  pause_long();
}

void Waiter::pause_long() {
  const std::uint32_t round = rounds_ - 1 - spins_;
  if (round == 0) since_ns_ = now_ns();
  if (round % kRoundsPerClockRead != kRoundsPerClockRead - 1) {
    sched_yield();
    return;
  }
  const std::uint64_t waited = now_ns() - since_ns_;
  if (waited < kAwakeNs) {
    sched_yield();
    return;
  }
  rounds_ -= 1;  // stay in this state: every further pause is a nap
  nap(std::clamp(waited / 16, kNapNsMin, kNapNsMax));
}

}  // namespace sabot::host
