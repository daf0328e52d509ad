// The stream of the host engine: a worker thread that drives what is queued, one entry at a time.
//
// An entry is the part of one group that belongs to this stream: batches that it drives, and
// batches that another stream drives and that this one has to see done before it goes on. Or it is
// a call of the application's, which is handed what failed before it, or a task of ours, which
// leaves failures alone.
#pragma once

#include <nccl.h>
#include <sabot/stream.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "comm/launch.hpp"
#include "comm/process.hpp"

namespace sabot::comm {

class Stream {
 public:
  static constexpr std::size_t kEntriesMax = 1024;

  struct Entry {
    std::vector<std::shared_ptr<Batch>> driven;
    std::vector<std::shared_ptr<Batch>> awaited;
    sabot_stream_fn call = nullptr;
    void* user = nullptr;
    std::function<void()> task;
  };

  // Blocks while the queue is full; the place is taken by the next put().
  void reserve();
  void put(Entry entry);
  // Waits for everything put before; the first failure that nobody has taken yet.
  Status synchronize();
  bool is_idle() const;
  // Lets the worker end when nothing is queued any more.
  void end();

  // The worker's loop.
  void work();

 private:
  void run(Entry& entry);
  Status take_failure();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::size_t reserved_ = 0;  // places promised, not yet put
  std::uint64_t put_count_ = 0;
  std::uint64_t run_count_ = 0;
  bool is_ending_ = false;
  Status failure_;
};

using StreamRef = SlotTable<Stream>::Ref;

// Whether the handle means "at once, in the calling thread": null and CUDA's two legacy handles.
inline bool is_immediate(cudaStream_t stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

// Queues a task of ours behind everything put before; blocks only while the queue is full. An error
// says why the handle is none of our streams. Precondition: !is_immediate(stream).
Status put_task(cudaStream_t stream, std::function<void()> task);

// A stream of ours, or why it is none.
Result<StreamRef> enter_stream(cudaStream_t stream);

Result<StreamRef> make_stream();

}  // namespace sabot::comm
