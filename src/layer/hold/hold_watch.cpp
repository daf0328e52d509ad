// One pass over what is held, and the thread that repeats it.
#include "layer/hold/hold_watch.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/clock.hpp"

namespace sabot::layer {
namespace {

// The application's signals are not for a thread that it does not know.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Status HoldWatch::expect() {
  const std::lock_guard lock(mutex_);
  ++expected_count_;
  if (is_running_) return {};
  if (thread_.joinable()) thread_.join();  // it has left its loop
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    process_ = ::getpid();
    is_running_ = true;
    return {};
  } catch (const std::system_error& error) {
    --expected_count_;
    return Error(Code::kSystem,
                 std::string("no thread to watch the time of a held stream: ") + error.what());
  }
}

void HoldWatch::cancel() {
  const std::lock_guard lock(mutex_);
  --expected_count_;
  changed_->notify_all();
}

void HoldWatch::add(std::shared_ptr<Hold> hold, driver::GateCell& cell, bool by_gpu) {
  const std::lock_guard lock(mutex_);
  --expected_count_;
  held_.add(std::move(hold), cell, by_gpu);
  changed_->notify_all();
}

bool HoldWatch::is_running() const {
  const std::lock_guard lock(mutex_);
  return is_running_;
}

HoldWatch::~HoldWatch() {
  if (thread_.joinable() && process_ != ::getpid()) {
    // There is nothing to wait for, and the mutex may have been anybody's when the process forked.
    static_cast<void>(new std::thread(std::move(thread_)));
    static_cast<void>(changed_.release());
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_->notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HoldWatch::run() {
  ::pthread_setname_np(::pthread_self(), "sabot-holds");
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    const std::uint64_t next_ns = held_.look(monotonic_ns());
    if (held_.empty() && expected_count_ == 0) break;
    changed_->wait_for(lock, std::chrono::nanoseconds(next_ns));
  }
  is_running_ = false;
}

void HeldStreams::add(std::shared_ptr<Hold> hold, driver::GateCell& cell, bool by_gpu) {
  const std::uint64_t limit_ns = by_gpu ? 0 : hold->limit_ns;
  entries_.push_back(Entry{std::move(hold), &cell, limit_ns});
}

std::uint64_t HeldStreams::look(std::uint64_t now_ns) {
  std::uint64_t next_ns = kDepartureSlice_ns;
  for (Entry& entry : entries_) {
    if (entry.cell->departure.load() != 0) {
      entry.hold->set_over();
      continue;
    }
    if (entry.limit_ns == 0 || entry.hold->state() != Hold::kHeld) continue;
    if (!entry.has_arrived && entry.cell->arrival.load() != 0) {
      entry.has_arrived = true;
      entry.due_ns = now_ns + entry.limit_ns;
    }
    if (!entry.has_arrived) {
      next_ns = std::min(next_ns, kArrivalSlice_ns);
    } else if (now_ns >= entry.due_ns) {
      entry.hold->end(Hold::kLetGo);
    } else {
      next_ns = std::min(next_ns, entry.due_ns - now_ns);
    }
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.hold->is_over(); });
  return next_ns;
}

}  // namespace sabot::layer
