// The data path of collectives: put, get, reduce, copy over windows of stamped slots.
#include "engine/host/executor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/host/reduce.hpp"
#include "engine/host/signature.hpp"

namespace sabot::host {
namespace {

using schedule::Buffer;
using schedule::RankMask;
using schedule::Step;

// Reductions whose result is also a message go block by block, so that the copy reads from cache.
constexpr std::size_t kBlockBytes = 8 * 1024;

// Outputs of this size and more do not stay in the cache anyway: their stores go around it.
constexpr std::uint64_t kStreamingBytesMin = 8 * 1024 * 1024;

void copy_bytes(void* to, const void* from, std::size_t bytes, Stores stores = Stores::kCached) {
  if (bytes == 0 || to == from) return;
  if (stores == Stores::kCached) {
    std::memcpy(to, from, bytes);
    return;
  }
  const void* const sources[] = {from};
  reduce({DataType::kUint8, ReduceOp::kSum, 1, stores}, to, sources, bytes);
}

}  // namespace

const std::byte* Executor::at(Buffer buffer, std::uint64_t offset) const {
  const void* begin = buffer == Buffer::kInput ? task_.operation_.input : task_.operation_.output;
  return static_cast<const std::byte*>(begin) + offset * element();
}

std::byte* Executor::output_at(std::uint64_t offset) const {
  return static_cast<std::byte*>(task_.operation_.output) + offset * element();
}

Progress Executor::advance() {
  if (task_.state_ == Task::State::kQueued) {
    if (!state_.is_turn_of(task_.place_)) {
      task_.watch_.waiting = 0;
      return endpoint_.blocked(task_);
    }
    begin();
  }
  while (true) {
    if (!task_.has_step_) {
      if (endpoint_.aborted()) return endpoint_.fail(task_, endpoint_.aborted_error());
      if (!task_.program_.next(task_.step_)) return finish();
      take_step();
    }
    switch (attempt()) {
      case Outcome::kWaiting: return endpoint_.blocked(task_);
      case Outcome::kFailed: return Progress::kFailed;
      case Outcome::kDone: break;
    }
    task_.has_step_ = false;
    ++task_.steps_;
  }
}

void Executor::begin() {
  remember(*endpoint_.segment_, endpoint_.rank_, task_.place_, task_.signature_);
  task_.state_ = Task::State::kRunning;
}

Progress Executor::finish() {
  const bool heard_everybody = std::popcount(task_.heard_) == endpoint_.world_ - 1;
  task_.state_ = Task::State::kDone;
  state_.end_collective(task_.place_, task_.program_.message_count(), heard_everybody);
  return Progress::kDone;
}

void Executor::take_step() {
  task_.has_step_ = true;
  task_.pending_ = task_.step_.sources & ~bit(endpoint_.rank_);
}

Executor::Outcome Executor::attempt() {
  switch (task_.step_.kind) {
    case Step::Kind::kPut: return put();
    case Step::Kind::kGet: return get();
    case Step::Kind::kReduce: return reduce();
    case Step::Kind::kCopy: copy(); break;
  }
  return Outcome::kDone;
}

bool Executor::has_credit(std::uint64_t stamp) {
  task_.watch_.waiting = state_.window.readers_left(stamp);
  return task_.watch_.waiting == 0;
}

Executor::Outcome Executor::put() {
  const Step& step = task_.step_;
  const std::uint64_t stamp = stamp_of(step.message);
  if (!has_credit(stamp)) return Outcome::kWaiting;
  const std::size_t bytes = step.extent * element();
  bool is_lost = false;
  if (const Outcome passed = pass(step.readers, bytes, is_lost); passed != Outcome::kDone)
    return passed;
  if (is_lost) {
    state_.window.lose(stamp, step.readers);
    return Outcome::kDone;
  }
  std::byte* to = state_.window.target(stamp, bytes);
  const bool scaled = task_.operation_.op == ReduceOp::kPreMulSum &&
                      schedule::has_reduction(task_.operation_.collective);
  for (std::uint64_t part = 0; part < step.parts; ++part) {
    const std::uint64_t length = step.length(part);
    if (length == 0 || static_cast<std::int64_t>(part) == step.skip) continue;
    const std::byte* from = at(step.from, step.from_offset + part * step.stride);
    std::byte* part_to = to + part * step.part * element();
    if (scaled)
      scale(task_.operation_.type, part_to, from, length, &task_.operation_.premul_bits);
    else
      copy_bytes(part_to, from, length * element());
  }
  state_.window.publish(stamp, bytes, step.readers, task_.signature_);
  return Outcome::kDone;
}

Executor::Outcome Executor::pass(RankMask readers, std::size_t bytes, bool& is_lost) {
  Result<Gate::Passage> passage = endpoint_.pass(readers, bytes, task_.due_ns_);
  if (!passage.ok()) {
    endpoint_.fail(task_, std::move(passage).error());
    return Outcome::kFailed;
  }
  is_lost = *passage == Gate::Passage::kLost;
  return *passage == Gate::Passage::kHeld ? Outcome::kWaiting : Outcome::kDone;
}

template <typename Arrived>
Executor::Outcome Executor::poll(Arrived&& arrived) {
  Result<bool> closed = endpoint_.is_closed(task_.pending_);
  if (!closed.ok()) {
    endpoint_.fail(task_, std::move(closed).error());
    return Outcome::kFailed;
  }
  if (*closed) {
    task_.watch_.waiting = 0;
    return Outcome::kWaiting;
  }
  const std::uint64_t stamp = stamp_of(task_.step_.message);
  for (RankMask rest = task_.pending_; rest != 0; rest &= rest - 1) {
    const int source = std::countr_zero(rest);
    if (!state_.window.arrived(source, stamp)) continue;
    const std::uint64_t theirs = state_.window.signature(source, stamp);
    if (theirs != task_.signature_) {
      endpoint_.fail(task_, endpoint_.mismatch(source, task_.place_, task_.signature_, theirs));
      return Outcome::kFailed;
    }
    arrived(source);
    task_.pending_ &= ~bit(source);
  }
  task_.watch_.waiting = task_.pending_;
  return task_.pending_ == 0 ? Outcome::kDone : Outcome::kWaiting;
}

void Executor::consumed(RankMask sources) {
  sources &= ~bit(endpoint_.rank_);
  task_.heard_ |= sources;
  if (task_.program_.message_count() <= state_.window.slots()) return;  // finish() says it
  const std::uint64_t stamp = stamp_of(task_.step_.message);
  for (; sources != 0; sources &= sources - 1)
    state_.window.consume(std::countr_zero(sources), stamp);
}

Executor::Outcome Executor::get() {
  const Step& step = task_.step_;
  const std::uint64_t stamp = stamp_of(step.message);
  return poll([&](int source) {
    const std::uint64_t part = step.parts > 1 ? static_cast<std::uint64_t>(source) : 0;
    const std::uint64_t length = step.length(part);
    if (length != 0)
      copy_bytes(output_at(step.to_offset + part * step.stride),
                 state_.window.payload(source, stamp) + step.message_offset * element(),
                 length * element(), stores());
    consumed(bit(source));
  });
}

Executor::Outcome Executor::reduce() {
  const Step& step = task_.step_;
  const Outcome outcome = poll([](int) {});
  if (outcome != Outcome::kDone) return outcome;
  const std::uint64_t put_stamp = stamp_of(step.put_message);
  if (step.readers != 0 && !has_credit(put_stamp)) return Outcome::kWaiting;

  const std::size_t count = step.length(0);
  bool is_lost = false;
  if (step.readers != 0) {
    const Outcome passed = pass(step.readers, count * element(), is_lost);
    if (passed != Outcome::kDone) return passed;
  }
  std::array<const void*, kReduceSourcesMax> sources;
  std::size_t used = 0;
  const std::uint64_t stamp = stamp_of(step.message);
  const int world = endpoint_.world_;
  for (int i = 0, s = step.first_source; i < world; ++i, s = s + 1 == world ? 0 : s + 1) {
    if ((step.sources & bit(s)) == 0) continue;
    if (s == endpoint_.rank_) {
      sources[used++] = at(step.from, step.from_offset);
      continue;
    }
    sources[used++] = state_.window.payload(s, stamp) + step.message_offset * element();
  }
  const std::size_t bytes = count * element();
  std::byte* message = step.readers == 0 ? nullptr : state_.window.target(put_stamp, bytes);
  if (count != 0)
    combine(sources.data(), count, step.to == Buffer::kNone ? nullptr : output_at(step.to_offset),
            message);
  consumed(step.sources);
  if (is_lost)
    state_.window.lose(put_stamp, step.readers);
  else if (message != nullptr)
    state_.window.publish(put_stamp, bytes, step.readers, task_.signature_);
  return Outcome::kDone;
}

// Reduces to `to`, to `message`, or to both (either may be null, not both).
void Executor::combine(const void* const* sources, std::size_t count, std::byte* to,
                       std::byte* message) {
  const Step& step = task_.step_;
  const Operation& operation = task_.operation_;
  const bool scaled = operation.op == ReduceOp::kPreMulSum;
  const bool both = to != nullptr && message != nullptr;
  Reduction reduction;
  reduction.type = operation.type;
  reduction.op = operation.op;
  reduction.divisor = step.finish ? static_cast<std::uint32_t>(endpoint_.world_) : 1;
  // A message is read by others at once; the output may be copied from it block by block.
  std::byte* destination = message != nullptr ? message : to;
  if (message == nullptr && !scaled) reduction.stores = stores();
  const auto used = static_cast<std::size_t>(std::popcount(step.sources));
  if (!scaled && !both) {
    sabot::host::reduce(reduction, destination, {sources, used}, count);
    return;
  }
  // Where partial sums are not offered, as for PreMulSum, sources are in rank order.
  const RankMask below = step.sources & (bit(endpoint_.rank_) - 1);
  const auto own = static_cast<std::size_t>(std::popcount(below));
  const std::size_t block = kBlockBytes / element();
  std::array<const void*, kReduceSourcesMax> shifted;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    const std::size_t offset = begin * element();
    for (std::size_t s = 0; s < used; ++s)
      shifted[s] = static_cast<const std::byte*>(sources[s]) + offset;
    if (scaled) {
      scale(operation.type, destination + offset, shifted[own], length, &operation.premul_bits);
      shifted[own] = destination + offset;
    }
    sabot::host::reduce(reduction, destination + offset, {shifted.data(), used}, length);
    if (both) copy_bytes(to + offset, destination + offset, length * element(), stores());
  }
}

Stores Executor::stores() const {
  const std::uint64_t bytes = task_.operation_.count * element();
  return bytes >= kStreamingBytesMin ? Stores::kStreaming : Stores::kCached;
}

void Executor::copy() const {
  const Step& step = task_.step_;
  if (step.length(0) == 0) return;
  copy_bytes(output_at(step.to_offset), at(step.from, step.from_offset), step.length(0) * element(),
             stores());
}

}  // namespace sabot::host
