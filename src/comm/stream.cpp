// Workers of streams: one thread each, which ends with the last entry after the handle has ended.
//
// The lock is not held while an entry runs, so a stream can be looked at, filled and ended
// meanwhile.
#include "comm/stream.hpp"

#include <cstdio>
#include <string>
#include <utility>

#include "abi/result_code.hpp"

namespace sabot::comm {
namespace {

// A worker holds its stream, so that the handle may be destroyed while entries are left.
void worker(void* raw) {
  const std::unique_ptr<StreamRef> stream(static_cast<StreamRef*>(raw));
  (*stream)->work();
}

Error unknown_stream(cudaStream_t stream) {
  char name[48];
  std::snprintf(name, sizeof name, "stream %p", static_cast<const void*>(stream));
  const SlotState state = process().streams.state(stream);
  if (state == SlotState::kDestroyed) {
    return Error(Code::kInvalidArgument, std::string(name) + " was destroyed before this call");
  }
  if (is_inherited_stream(stream)) {
    return Error(Code::kInvalidUsage, std::string(name) +
                                          " belongs to the process that forked this "
                                          "one; create streams after fork");
  }
  return Error(Code::kInvalidUsage,
               std::string(name) +
                   " was not made by sabot_stream_create; the host engine cannot use "
                   "CUDA streams, pass the null stream or one of its own");
}

}  // namespace

void Stream::reserve() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return entries_.size() + reserved_ < kEntriesMax; });
  ++reserved_;
}

void Stream::put(Entry entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --reserved_;
  ++put_count_;
  entries_.push_back(std::move(entry));
  changed_.notify_all();
}

Status Stream::synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::uint64_t wanted = put_count_;
  changed_.wait(lock, [this, wanted] { return run_count_ >= wanted; });
  return std::exchange(failure_, Status());
}

Status Stream::take_failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(failure_, Status());
}

bool Stream::is_idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return run_count_ == put_count_;
}

void Stream::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_ending_ = true;
  changed_.notify_all();
}

void Stream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !entries_.empty() || is_ending_; });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    changed_.notify_all();  // there is room
    lock.unlock();
    run(entry);
    lock.lock();
    for (const auto& batches : {entry.driven, entry.awaited}) {
      for (const auto& batch : batches) {
        if (failure_.ok() && !batch->failure().ok()) failure_ = Error(batch->failure().error());
      }
    }
    ++run_count_;
    changed_.notify_all();
  }
}

void Stream::run(Entry& entry) {
  if (entry.call != nullptr) {
    const Status outcome = take_failure();
    entry.call(entry.user, outcome.ok() ? ncclSuccess : abi::to_result(outcome.error().code()),
               outcome.ok() ? "" : outcome.error().message().c_str());
    return;
  }
  if (entry.task) return entry.task();
  drive(entry.driven);
  host::Waiter waiter(true);
  for (const auto& batch : entry.awaited) {
    while (!batch->is_done()) waiter.pause();
  }
}

Result<StreamRef> enter_stream(cudaStream_t stream) {
  StreamRef ref = process().streams.enter(stream);
  if (!ref) return unknown_stream(stream);
  return ref;
}

Status put_task(cudaStream_t stream, std::function<void()> task) {
  const StreamRef ref = SABOT_TRY(enter_stream(stream));
  Stream::Entry entry;
  entry.task = std::move(task);
  ref->reserve();
  ref->put(std::move(entry));
  return {};
}

Result<StreamRef> make_stream() {
  StreamRef stream = SABOT_TRY(process().streams.add(std::make_unique<Stream>()));
  auto held = std::make_unique<StreamRef>(stream);
  Status started = spawn("a stream", worker, held.get());
  if (!started.ok()) {
    stream.retire(SlotState::kFailed);
    return std::move(started).error();
  }
  held.release();  // NOLINT: the worker owns it now
  return stream;
}

}  // namespace sabot::comm
