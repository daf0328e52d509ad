// Waiting in slices, and ending waits.
#include "layer/hold/holds.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "abi/names.hpp"
#include "run/identity.hpp"

namespace sabot::layer {
namespace {

// Lives on after its Holds: exit handlers cannot be taken back.
std::atomic<Holds*> held_at_exit{nullptr};

void let_go_at_exit() {
  if (Holds* holds = held_at_exit.load()) holds->let_go_all();
}

void nap(std::uint64_t ns) {
  const timespec duration{static_cast<time_t>(ns / 1'000'000'000),
                          static_cast<long>(ns % 1'000'000'000)};
  ::nanosleep(&duration, nullptr);
}

// Naps begin short, so that short delays end in time, and grow to a slice.
class Naps {
 public:
  void nap_until(std::uint64_t deadline_ns) {
    const std::uint64_t now = run::now().monotonic_ns;
    const std::uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    nap(std::min(left, next_ns_));
    next_ns_ = std::min(next_ns_ * 2, Holds::kSlice_ns);
  }

 private:
  std::uint64_t next_ns_ = 20'000;
};

}  // namespace

bool wait_for(Hold& hold, const std::function<bool()>& is_released) {
  const std::uint64_t begin = run::now().monotonic_ns;
  const std::uint64_t deadline = hold.limit_ns == 0 ? ~std::uint64_t{0} : begin + hold.limit_ns;
  Naps naps;
  for (;;) {
    const Hold::State state = hold.state();
    if (state == Hold::kLetGo || state == Hold::kEnded) break;
    if (state == Hold::kHeld && is_released()) hold.end(Hold::kLetGo);
    if (state == Hold::kHeld && run::now().monotonic_ns >= deadline) hold.end(Hold::kLetGo);
    if (hold.state() != state) continue;
    naps.nap_until(deadline);
  }
  hold.set_over();
  return hold.state() == Hold::kLetGo;
}

Holds::~Holds() {
  Holds* self = this;
  held_at_exit.compare_exchange_strong(self, nullptr);
  let_go_all();
  {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }
  if (watcher_.joinable()) watcher_.join();
}

bool Holds::is_passed_stream(const Entry& entry) { return !entry.is_call && entry.hold->is_over(); }

std::uint64_t Holds::count(FaultId fault) const {
  return control_ == nullptr ? 0 : control_->release_count({fault.plan, fault.index});
}

// The handler is registered with the first hold, later than those of a CUDA driver in use: it runs
// before them, and they would wait for held streams.
void Holds::release_at_exit() {
  Holds* none = nullptr;
  if (!held_at_exit.compare_exchange_strong(none, this)) return;
  static const bool is_registered = std::atexit(let_go_at_exit) == 0;
  (void)is_registered;
}

std::shared_ptr<Hold> Holds::enter(Hold::Word word, const abi::Call& call, FaultId fault,
                                   std::uint64_t limit_ns, bool is_call) {
  auto hold = std::make_shared<Hold>(std::move(word), call.comm, fault, limit_ns);
  const std::uint64_t released = count(fault);
  std::unique_ptr<run::Control::Listing> listing;
  if (control_ != nullptr && fault.plan < run::kControlPlansMax)
    listing = std::make_unique<run::Control::Listing>(
        *control_, run::ControlFault{fault.plan, fault.index}, call.world_rank);
  const std::lock_guard lock(mutex_);
  release_at_exit();
  std::erase_if(entries_, is_passed_stream);
  entries_.push_back({hold, is_call, released, std::move(listing)});
  // ending() has looked already, or will find this entry. The call that ends the communicator may
  // be held itself.
  const abi::Kind kind = abi::info(call.function).kind;
  const bool is_end = kind == abi::Kind::destroy || kind == abi::Kind::abort;
  if (!is_end && call.comm != nullptr && is_gone_ && is_gone_(call.comm)) hold->end(Hold::kEnded);
  return hold;
}

std::shared_ptr<Hold> Holds::add(Hold::Word word, const abi::Call& call, FaultId fault,
                                 std::uint64_t limit_ns) {
  std::shared_ptr<Hold> hold = enter(std::move(word), call, fault, limit_ns, false);
  const std::lock_guard lock(mutex_);
  watch();
  return hold;
}

void Holds::note(const abi::Call& call, FaultId fault, std::function<void()> stop) {
  const std::uint64_t released = count(fault);
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.stop && entry.hold->fault == fault && entry.hold->comm == call.comm;
  });
  auto word = std::make_shared<std::atomic<std::uint32_t>>(0);
  entries_.push_back({std::make_shared<Hold>(std::move(word), call.comm, fault, 0), false, released,
                      nullptr, std::move(stop)});
  watch();
}

// Ends with the last held stream. Signals stay those of the application's own threads.
void Holds::watch() {
  if (is_watching_ || control_ == nullptr) return;
  if (watcher_.joinable()) watcher_.join();  // it has let go of the lock for good
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  is_watching_ = true;
  watcher_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (is_watching_) {
      look_at_releases();
      lock.unlock();
      nap(kSlice_ns);
      lock.lock();
      std::erase_if(entries_, is_passed_stream);
      is_watching_ = std::any_of(entries_.begin(), entries_.end(),
                                 [](const Entry& entry) { return !entry.is_call; });
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Holds::drop(const std::shared_ptr<Hold>& hold) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&hold](const Entry& entry) { return entry.hold == hold; });
}

Holds::Stay::Stay(Holds& holds, const abi::Call& call, FaultId fault, std::uint64_t limit_ns)
    : holds_(holds),
      released_(holds.count(fault)),
      hold_(holds.enter(std::make_shared<std::atomic<std::uint32_t>>(0), call, fault, limit_ns,
                        true)) {}

Holds::Stay::~Stay() { holds_.drop(hold_); }

bool Holds::Stay::stay() {
  return wait_for(*hold_, [this] { return holds_.count(hold_->fault) != released_; });
}

std::size_t Holds::count_calls(const void* comm) const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(),
      [comm](const Entry& entry) { return entry.is_call && entry.hold->comm == comm; }));
}

std::size_t Holds::held_calls(const void* comm) {
  const std::lock_guard lock(mutex_);
  return count_calls(comm);
}

void Holds::ending(const void* comm, Ending how) {
  if (comm == nullptr || is_forgotten_.load()) return;
  std::unique_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.hold->comm != comm) continue;
    const Hold::State stream = how == Ending::kAbort ? Hold::kAborting : Hold::kLetGo;
    entry.hold->end(entry.is_call ? Hold::kEnded : stream);
  }
  const std::uint64_t deadline = run::now().monotonic_ns + kLeaveMax_ns;
  Naps naps;
  while (count_calls(comm) != 0 && run::now().monotonic_ns < deadline) {
    lock.unlock();
    naps.nap_until(deadline);
    lock.lock();
  }
}

void Holds::ended(const void* comm) {
  if (comm == nullptr || is_forgotten_.load()) return;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.hold->comm == comm) entry.hold->end(Hold::kEnded);
  std::erase_if(entries_,
                [comm](const Entry& entry) { return !entry.is_call && entry.hold->comm == comm; });
}

void Holds::look_at_releases() {
  for (const Entry& entry : entries_) {
    if (count(entry.hold->fault) == entry.released) continue;
    entry.hold->end(Hold::kLetGo);
    if (!entry.stop) continue;
    entry.stop();
    entry.hold->set_over();
  }
}

void Holds::forget() noexcept {
  is_forgotten_.store(true);
  Holds* self = this;
  held_at_exit.compare_exchange_strong(self, nullptr);
}

void Holds::let_go_all() noexcept {
  if (is_forgotten_.load()) return;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) entry.hold->end(Hold::kLetGo);
}

}  // namespace sabot::layer
