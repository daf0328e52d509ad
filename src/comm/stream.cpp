// Workers of streams, and the C functions of sabot/stream.h.
#include "comm/stream.hpp"

#include <cstdio>
#include <string>
#include <utility>

#include "abi/result_code.hpp"
#include "comm/report.hpp"

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

using sabot::Code;
using sabot::Error;
using sabot::Result;
using sabot::Status;
using namespace sabot::comm;

#define SABOT_PUBLIC extern "C" __attribute__((visibility("default")))

SABOT_PUBLIC ncclResult_t sabot_stream_create(cudaStream_t* stream) {
  constexpr const char* kName = "sabot_stream_create";
  if (stream == nullptr) {
    return remember(kName, Error(Code::kInvalidArgument, "stream is NULL"));
  }
  Result<StreamRef> made = make_stream();
  if (!made.ok()) return remember(kName, made.error());
  *stream = static_cast<cudaStream_t>(made->handle());
  return ncclSuccess;
}

SABOT_PUBLIC ncclResult_t sabot_stream_synchronize(cudaStream_t stream) {
  if (is_immediate(stream)) return ncclSuccess;
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember("sabot_stream_synchronize", ref.error());
  const Status outcome = (*ref)->synchronize();
  return outcome.ok() ? ncclSuccess : remember("sabot_stream_synchronize", outcome.error());
}

SABOT_PUBLIC ncclResult_t sabot_stream_query(cudaStream_t stream) {
  if (is_immediate(stream)) return ncclSuccess;
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember("sabot_stream_query", ref.error());
  return (*ref)->is_idle() ? ncclSuccess : ncclInProgress;
}

SABOT_PUBLIC ncclResult_t sabot_stream_call(cudaStream_t stream, sabot_stream_fn fn, void* user) {
  constexpr const char* kName = "sabot_stream_call";
  if (fn == nullptr) return remember(kName, Error(Code::kInvalidArgument, "fn is NULL"));
  if (is_immediate(stream)) {
    fn(user, ncclSuccess, "");
    return ncclSuccess;
  }
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember(kName, ref.error());
  Stream::Entry entry;
  entry.call = fn;
  entry.user = user;
  (*ref)->reserve();
  (*ref)->put(std::move(entry));
  return ncclSuccess;
}

SABOT_PUBLIC ncclResult_t sabot_stream_destroy(cudaStream_t stream) {
  constexpr const char* kName = "sabot_stream_destroy";
  if (is_immediate(stream)) {
    return remember(kName, Error(Code::kInvalidArgument, "the null stream cannot be destroyed"));
  }
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember(kName, ref.error());
  if (ref->retire(SlotState::kDestroyed)) (*ref)->end();
  return ncclSuccess;
}
