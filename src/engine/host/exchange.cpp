// The data path of send and receive.
#include "engine/host/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "engine/host/signature.hpp"

namespace sabot::host {

using schedule::RankMask;

Exchange::Exchange(Task& task)
    : endpoint_(*task.endpoint_),
      task_(task),
      sends_(task.operation_.kind == Operation::Kind::kSend),
      direction_(sends_
                     ? endpoint_.state_->sends[static_cast<std::size_t>(task.operation_.peer)]
                     : endpoint_.state_->receives[static_cast<std::size_t>(task.operation_.peer)]),
      channel_(sends_ ? endpoint_.segment_->channel(endpoint_.rank_, task.operation_.peer)
                      : endpoint_.segment_->channel(task.operation_.peer, endpoint_.rank_)),
      total_bytes_(task.operation_.count * bytes_of(task.operation_.type)) {}

Progress Exchange::advance() {
  task_.watch_.waiting = 0;
  if (endpoint_.aborted()) return endpoint_.fail(task_, endpoint_.aborted_error());
  if (task_.state_ == Task::State::kQueued) {
    // pairs with: finish
    if (direction_.turn.load(std::memory_order_acquire) != task_.place_)
      return endpoint_.blocked(task_);
    task_.state_ = Task::State::kRunning;
  }
  if (!sends_) return receive();
  do {
    if (!send_chunk()) return endpoint_.blocked(task_);
    ++task_.steps_;
  } while (task_.moved_bytes_ < total_bytes_);
  return finish();
}

std::size_t Exchange::chunk_bytes() const {
  return std::min<std::uint64_t>(channel_.bytes, total_bytes_ - task_.moved_bytes_);
}

bool Exchange::send_chunk() {
  const int peer = task_.operation_.peer;
  if (direction_.chunks - direction_.credit >= channel_.count) {
    // pairs with: receive
    direction_.credit =
        endpoint_.segment_->channel_consumed(endpoint_.rank_, peer).load(std::memory_order_acquire);
    if (direction_.chunks - direction_.credit >= channel_.count) {
      task_.watch_.waiting = RankMask{1} << peer;
      return false;
    }
  }
  const std::size_t bytes = chunk_bytes();
  link::SlotLine& line = channel_.line(direction_.chunks);
  const bool tiny = bytes <= link::kSlotInlineBytes;
  std::byte* to = tiny ? line.payload : channel_.data(direction_.chunks);
  const auto* from = static_cast<const std::byte*>(task_.operation_.input) + task_.moved_bytes_;
  if (bytes != 0) std::memcpy(to, from, bytes);
  // relaxed: the stamp that follows publishes it
  line.signature.store(task_.signature_ | (tiny ? kInlineFlag : 0), std::memory_order_relaxed);
  ++direction_.chunks;
  // pairs with: receive
  line.stamp.store(direction_.chunks, std::memory_order_release);
  task_.moved_bytes_ += bytes;
  return true;
}

Progress Exchange::receive() {
  const int peer = task_.operation_.peer;
  do {
    link::SlotLine& line = channel_.line(direction_.chunks);
    // pairs with: send_chunk
    if (line.stamp.load(std::memory_order_acquire) != direction_.chunks + 1) {
      task_.watch_.waiting = RankMask{1} << peer;
      return endpoint_.blocked(task_);
    }
    const std::uint64_t signature = line.signature.load(std::memory_order_relaxed);
    if ((signature & ~kInlineFlag) != task_.signature_)
      return endpoint_.fail(
          task_, endpoint_.mismatch(peer, 0, task_.signature_, signature & ~kInlineFlag));
    const std::size_t bytes = chunk_bytes();
    const std::byte* from =
        (signature & kInlineFlag) != 0 ? line.payload : channel_.data(direction_.chunks);
    auto* to = static_cast<std::byte*>(task_.operation_.output) + task_.moved_bytes_;
    if (bytes != 0) std::memcpy(to, from, bytes);
    ++direction_.chunks;
    // pairs with: send_chunk
    endpoint_.segment_->channel_consumed(peer, endpoint_.rank_)
        .store(direction_.chunks, std::memory_order_release);
    task_.moved_bytes_ += bytes;
    ++task_.steps_;
  } while (task_.moved_bytes_ < total_bytes_);
  return finish();
}

Progress Exchange::finish() {
  task_.state_ = Task::State::kDone;
  // pairs with: advance
  direction_.turn.store(task_.place_ + 1, std::memory_order_release);
  return Progress::kDone;
}

}  // namespace sabot::host
