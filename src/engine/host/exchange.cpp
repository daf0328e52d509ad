// The data path of send and receive.
#include "engine/host/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "engine/host/channel.hpp"
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
  return sends_ ? send() : receive();
}

Progress Exchange::wait_for_peer() {
  task_.watch_.waiting = RankMask{1} << task_.operation_.peer;
  return endpoint_.blocked(task_);
}

std::size_t Exchange::left(std::size_t chunk_bytes_max) const {
  return std::min<std::uint64_t>(chunk_bytes_max, total_bytes_ - task_.moved_bytes_);
}

Progress Exchange::send() {
  Outlet outlet(*endpoint_.segment_, endpoint_.rank_, task_.operation_.peer, direction_);
  const auto* from = static_cast<const std::byte*>(task_.operation_.input);
  do {
    if (!outlet.has_room()) return wait_for_peer();
    const std::size_t bytes = left(outlet.chunk_bytes_max());
    Result<Gate::Passage> passage =
        endpoint_.pass(RankMask{1} << task_.operation_.peer, bytes, task_.due_ns_);
    if (!passage.ok()) return endpoint_.fail(task_, std::move(passage).error());
    if (*passage == Gate::Passage::kHeld) return endpoint_.blocked(task_);
    if (*passage == Gate::Passage::kLost)
      outlet.lose();
    else
      outlet.put(from + task_.moved_bytes_, bytes, task_.signature_);
    task_.moved_bytes_ += bytes;
    ++task_.steps_;
  } while (task_.moved_bytes_ < total_bytes_);
  return finish();
}

Progress Exchange::receive() {
  const int peer = task_.operation_.peer;
  Inlet inlet(*endpoint_.segment_, peer, endpoint_.rank_, direction_);
  auto* to = static_cast<std::byte*>(task_.operation_.output);
  do {
    Result<bool> closed = endpoint_.is_closed(RankMask{1} << peer);
    if (!closed.ok()) return endpoint_.fail(task_, std::move(closed).error());
    if (*closed) return endpoint_.blocked(task_);
    if (!inlet.arrived()) return wait_for_peer();
    const std::uint64_t signature = inlet.signature();
    if (signature != task_.signature_)
      return endpoint_.fail(task_, endpoint_.mismatch(peer, 0, task_.signature_, signature));
    const std::size_t bytes = left(inlet.chunk_bytes_max());
    if (bytes != 0) std::memcpy(to + task_.moved_bytes_, inlet.payload(), bytes);
    inlet.release();
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
