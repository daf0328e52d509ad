// Who moves the messages: waiting callers, else the mailbox's thread.
#include "pytorch/mailbox/mailbox.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "pytorch/thread.hpp"

namespace sabot::pytorch {
namespace {

// Between two looks at the clock while nothing moves; a look costs as much as a poll.
constexpr int kPollsPerClockRead = 16;
// While callers move the messages the thread only looks in. After the last message it stays so long
// before it goes to sleep, because waking it costs its waker more than its looking in costs anyone.
constexpr auto kLookInterval = std::chrono::milliseconds(1);
constexpr std::uint64_t kLingerNs = 50'000'000;

// Forks that lie between the first process and this one; a look at it costs a seventh of a
// getpid().
std::atomic<unsigned> forks{0};
unsigned fork_count() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.store(forks.load() + 1); });
  static_cast<void>(registered);
  return forks.load();
}

// One wait of one thread, as the engine waits.
class Pause {
 public:
  Pause(const ByteChannels& channels, ncclComm_t comm) : channels_(channels) {
    channels.wait_begin(&wait_, comm);
  }
  void after(bool has_moved) {
    has_moved ? channels_.wait_end(&wait_) : channels_.wait_pause(&wait_);
  }

 private:
  const ByteChannels& channels_;
  sabot_wait_t wait_{};
};

// The time, read now and then.
class Watch {
 public:
  std::uint64_t now() {
    if (polls_++ % kPollsPerClockRead == 0) now_ns_ = Mailbox::now_ns();
    return now_ns_;
  }

 private:
  unsigned polls_ = 0;
  std::uint64_t now_ns_ = 0;
};

void tell(std::vector<Messages::Ended> ended) {
  for (Messages::Ended& one : ended) {
    if (one.message->delivered) one.message->delivered(one.delivery);
  }
}

std::unique_ptr<Message> make_message(const Mailbox::Address& address, bool sends,
                                      const std::byte* data, std::size_t bytes) {
  auto message = std::make_unique<Message>();
  message->sends = sends;
  message->peer = address.peer;
  message->tag = address.tag;
  message->type = address.type;
  message->data = const_cast<std::byte*>(data);  // a send only reads it
  message->bytes = bytes;
  message->deadline_ns = address.deadline_ns;
  return message;
}

}  // namespace

// Lives until the mailbox and its thread are both gone, so nobody ever waits for the thread: it may
// be in a `delivered` that ends the mailbox, or that waits for a lock of whoever does.
struct Mailbox::Shared : std::enable_shared_from_this<Shared> {
  Shared(ncclComm_t group, const ByteChannels& functions, Messages empty)
      : channels(functions), comm(group), messages(std::move(empty)) {}

  // Moves messages once, unless another thread is just doing so, and tells who is to be told.
  bool move(std::uint64_t now) {
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const bool has_moved = messages.advance(now);
    std::vector<Messages::Ended> ended = messages.take_ended();
    lock.unlock();
    tell(std::move(ended));
    return has_moved;
  }

  // Sees to it that open messages are moved when nobody waits. Precondition: mutex is held.
  void call_thread() {
    if (messages.is_idle() || is_closed) return;
    if (has_thread) {
      if (is_asleep) changed.notify_one();
      return;
    }
    has_thread = start_thread("sabot-mailbox", [self = shared_from_this()] { self->work(); });
    if (!has_thread)
      messages.fail_all(ncclSystemError, "no thread could be started to move messages");
  }

  // Around what a caller does to move messages itself.
  void enter() { waiters.fetch_add(1); }
  void leave() {
    if (waiters.fetch_sub(1) > 1) return;
    std::unique_lock<std::mutex> lock(mutex);
    call_thread();  // for what others have started meanwhile
    std::vector<Messages::Ended> ended = messages.take_ended();
    lock.unlock();
    tell(std::move(ended));
  }

  void work();

  const ByteChannels channels;
  const ncclComm_t comm;
  std::atomic<int> waiters{0};  // callers that move messages themselves
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  Messages messages;
  bool has_thread = false;
  bool is_asleep = false;
  bool is_closed = false;
};

void Mailbox::Shared::work() {
  Pause pause(channels, comm);
  std::uint64_t idle_since = 0;
  for (;;) {
    bool is_idle = false;
    {
      std::unique_lock<std::mutex> lock(mutex);
      if (is_closed) return;
      is_idle = messages.is_idle();
      if (!is_idle) idle_since = 0;
      if (is_idle && idle_since == 0) idle_since = now_ns();
      if (is_idle && now_ns() - idle_since > kLingerNs) {
        is_asleep = true;
        changed.wait(lock, [this] { return is_closed || !messages.is_idle(); });
        is_asleep = false;
        continue;
      }
    }
    if (is_idle || waiters.load() > 0) {
      std::this_thread::sleep_for(kLookInterval);
    } else {
      pause.after(move(now_ns()));
    }
  }
}

Mailbox::Mailbox(ncclComm_t comm, int rank, int size, TypeName type_name,
                 const ByteChannels& channels)
    : shared_(std::make_shared<Shared>(comm, channels,
                                       Messages(channels, comm, rank, size, type_name))),
      fork_count_(fork_count()) {}

Mailbox::~Mailbox() { close(); }

bool Mailbox::is_of_this_process() const { return fork_count() == fork_count_; }

std::uint64_t Mailbox::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::uint64_t Mailbox::deadline_after(std::chrono::milliseconds timeout) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count();
  return now_ns() + static_cast<std::uint64_t>(ns);
}

void Mailbox::start(std::unique_ptr<Message> message) {
  if (!is_of_this_process()) {
    const std::string text = message->describe() +
                             ": the process group belongs to the process that forked this one; "
                             "create process groups after fork";
    if (message->delivered) message->delivered({Delivery::Kind::kFailed, ncclInvalidUsage, text});
    return;
  }
  const std::uint64_t now = now_ns();
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->messages.start(std::move(message), now);
  shared_->messages.advance(now);
  if (shared_->waiters.load() == 0) shared_->call_thread();
  std::vector<Messages::Ended> ended = shared_->messages.take_ended();
  lock.unlock();
  tell(std::move(ended));
}

void Mailbox::send(const Address& to, std::span<const std::byte> bytes, Delivered delivered) {
  auto message = make_message(to, true, bytes.data(), bytes.size());
  message->delivered = std::move(delivered);
  start(std::move(message));
}

void Mailbox::recv(const Address& from, std::span<std::byte> bytes, Delivered delivered) {
  auto message = make_message(from, false, bytes.data(), bytes.size());
  message->delivered = std::move(delivered);
  start(std::move(message));
}

Delivery Mailbox::run(std::unique_ptr<Message> message) {
  struct {
    Delivery delivery;
    std::atomic<bool> is_over{false};
  } outcome;
  message->delivered = [&outcome](const Delivery& delivery) {
    outcome.delivery = delivery;
    outcome.is_over.store(true);  // the last access: the waiter returns
  };
  // Counted before it starts, so that no thread is called for what this one moves itself.
  shared_->enter();
  start(std::move(message));
  wait([&outcome] { return outcome.is_over.load(); });
  shared_->leave();
  return std::move(outcome.delivery);
}

Delivery Mailbox::send_now(const Address& to, std::span<const std::byte> bytes) {
  return run(make_message(to, true, bytes.data(), bytes.size()));
}

Delivery Mailbox::recv_now(const Address& from, std::span<std::byte> bytes) {
  return run(make_message(from, false, bytes.data(), bytes.size()));
}

void Mailbox::advance() {
  if (is_of_this_process()) shared_->move(now_ns());
}

bool Mailbox::wait(const std::function<bool()>& is_over, std::uint64_t deadline_ns) {
  if (is_over()) return true;
  if (!is_of_this_process()) return false;
  Shared& shared = *shared_;
  shared.enter();
  Pause pause(shared.channels, shared.comm);
  Watch watch;
  bool is_late = false;
  while (!is_over() && !is_late) {
    const std::uint64_t now = watch.now();
    pause.after(shared.move(now));
    is_late = deadline_ns != 0 && now >= deadline_ns;
  }
  shared.leave();
  return is_over();
}

void Mailbox::abort(const std::string& reason) {
  if (!is_of_this_process()) return;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->messages.fail_all(ncclInternalError, reason);
  std::vector<Messages::Ended> ended = shared_->messages.take_ended();
  lock.unlock();
  tell(std::move(ended));
}

void Mailbox::close() {
  if (!is_of_this_process()) return;
  abort("the process group was destroyed");
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->is_closed = true;
  shared_->changed.notify_all();
}

}  // namespace sabot::pytorch
