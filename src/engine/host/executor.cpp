// The data path of collectives: put, get, reduce, copy over windows of stamped slots.
//
// Credit. A slot may be overwritten once the readers of what lies in it are done. Mostly that is
// known without reading anything: whoever sent me a message of this collective has finished all
// earlier ones, so when I have heard everybody, all that I put before this collective has been
// read. Only otherwise the readers' counters are read, and only collectives with more messages than
// slots keep them up to date message by message.
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

constexpr RankMask bit(int rank) { return RankMask{1} << rank; }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
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
    // pairs with: finish
    if (state_.turn.load(std::memory_order_acquire) != task_.place_) {
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
      case Outcome::kMismatch: return Progress::kFailed;
      case Outcome::kDone: break;
    }
    task_.has_step_ = false;
    ++task_.steps_;
  }
}

void Executor::begin() {
  link::HistoryEntry& entry = endpoint_.segment_->history(endpoint_.rank_, task_.place_);
  entry.number.store(0, std::memory_order_relaxed);
  // Both pair with: recall
  entry.signature.store(task_.signature_, std::memory_order_release);
  entry.number.store(task_.place_, std::memory_order_release);
  task_.state_ = Task::State::kRunning;
}

Progress Executor::finish() {
  const std::uint64_t next =
      state_.base + std::max<std::uint64_t>(1, task_.program_.message_count());
  if (std::popcount(task_.heard_) == endpoint_.world_ - 1) state_.everyone = state_.base;
  // pairs with: has_credit
  endpoint_.segment_->completed(endpoint_.rank_).store(next, std::memory_order_release);
  state_.base = next;
  task_.state_ = Task::State::kDone;
  // pairs with: advance
  state_.turn.store(task_.place_ + 1, std::memory_order_release);
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
  const Endpoint::State::Put& old = state_.puts[stamp % state_.limits.slots];
  if (old.stamp <= state_.everyone) return true;
  RankMask missing = 0;
  for (RankMask rest = old.readers; rest != 0; rest &= rest - 1) {
    const int reader = std::countr_zero(rest);
    std::uint64_t& seen = state_.seen[static_cast<std::size_t>(reader)];
    if (seen >= old.stamp) continue;
    const link::Segment& segment = *endpoint_.segment_;
    // pairs with: finish, consumed
    seen = std::max(segment.completed(reader).load(std::memory_order_acquire),
                    segment.consumed(reader, endpoint_.rank_).load(std::memory_order_acquire));
    if (seen < old.stamp) missing |= bit(reader);
  }
  task_.watch_.waiting = missing;
  return missing == 0;
}

std::byte* Executor::target(std::uint64_t stamp, std::size_t bytes) const {
  const link::Slots& window = state_.windows[static_cast<std::size_t>(endpoint_.rank_)];
  return bytes <= link::kSlotInlineBytes ? window.line(stamp).payload : window.data(stamp);
}

void Executor::publish(std::uint64_t stamp, std::size_t bytes, RankMask readers) {
  state_.puts[stamp % state_.limits.slots] = {stamp, readers};
  link::SlotLine& line = state_.windows[static_cast<std::size_t>(endpoint_.rank_)].line(stamp);
  const std::uint64_t flag = bytes <= link::kSlotInlineBytes ? kInlineFlag : 0;
  line.signature.store(task_.signature_ | flag, std::memory_order_relaxed);
  // pairs with: poll
  line.stamp.store(stamp, std::memory_order_release);
}

Executor::Outcome Executor::put() {
  const Step& step = task_.step_;
  const std::uint64_t stamp = stamp_of(step.message);
  if (!has_credit(stamp)) return Outcome::kWaiting;
  const std::size_t bytes = step.extent * element();
  std::byte* to = target(stamp, bytes);
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
  publish(stamp, bytes, step.readers);
  return Outcome::kDone;
}

template <typename Arrived>
Executor::Outcome Executor::poll(Arrived&& arrived) {
  const std::uint64_t stamp = stamp_of(task_.step_.message);
  for (RankMask rest = task_.pending_; rest != 0; rest &= rest - 1) {
    const int source = std::countr_zero(rest);
    const link::Slots& window = state_.windows[static_cast<std::size_t>(source)];
    const link::SlotLine& line = window.line(stamp);
    // pairs with: publish
    if (line.stamp.load(std::memory_order_acquire) != stamp) continue;
    const std::uint64_t signature = line.signature.load(std::memory_order_relaxed);
    if ((signature & ~kInlineFlag) != task_.signature_) {
      endpoint_.fail(task_, endpoint_.mismatch(source, task_.place_, task_.signature_,
                                               signature & ~kInlineFlag));
      return Outcome::kMismatch;
    }
    arrived(source, (signature & kInlineFlag) != 0 ? line.payload : window.data(stamp));
    task_.pending_ &= ~bit(source);
  }
  task_.watch_.waiting = task_.pending_;
  return task_.pending_ == 0 ? Outcome::kDone : Outcome::kWaiting;
}

void Executor::consumed(RankMask sources) {
  sources &= ~bit(endpoint_.rank_);
  task_.heard_ |= sources;
  if (task_.program_.message_count() <= state_.limits.slots) return;  // finish() says it
  const std::uint64_t stamp = stamp_of(task_.step_.message);
  for (; sources != 0; sources &= sources - 1) {
    const int source = std::countr_zero(sources);
    // pairs with: has_credit
    endpoint_.segment_->consumed(endpoint_.rank_, source).store(stamp, std::memory_order_release);
  }
}

Executor::Outcome Executor::get() {
  const Step& step = task_.step_;
  const Outcome outcome = poll([&](int source, const std::byte* payload) {
    const std::uint64_t part = step.parts > 1 ? static_cast<std::uint64_t>(source) : 0;
    const std::uint64_t length = step.length(part);
    if (length != 0)
      copy_bytes(output_at(step.to_offset + part * step.stride),
                 payload + step.message_offset * element(), length * element());
    consumed(bit(source));
  });
  return outcome;
}

Executor::Outcome Executor::reduce() {
  const Step& step = task_.step_;
  const Outcome outcome = poll([](int, const std::byte*) {});
  if (outcome != Outcome::kDone) return outcome;
  const std::uint64_t put_stamp = stamp_of(step.put_message);
  if (step.readers != 0 && !has_credit(put_stamp)) return Outcome::kWaiting;

  const std::size_t count = step.length(0);
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
    const link::Slots& window = state_.windows[static_cast<std::size_t>(s)];
    const link::SlotLine& line = window.line(stamp);
    const bool tiny = (line.signature.load(std::memory_order_relaxed) & kInlineFlag) != 0;
    const std::byte* payload = tiny ? line.payload : window.data(stamp);
    sources[used++] = payload + step.message_offset * element();
  }
  const std::size_t bytes = count * element();
  std::byte* message = step.readers == 0 ? nullptr : target(put_stamp, bytes);
  if (count != 0)
    combine(sources.data(), count, step.to == Buffer::kNone ? nullptr : output_at(step.to_offset),
            message);
  consumed(step.sources);
  if (message != nullptr) publish(put_stamp, bytes, step.readers);
  return Outcome::kDone;
}

// Reduces to `to`, to `message`, or to both (either may be null, not both).
void Executor::combine(const void* const* sources, std::size_t count, std::byte* to,
                       std::byte* message) {
  const Step& step = task_.step_;
  const Operation& operation = task_.operation_;
  Reduction reduction;
  reduction.type = operation.type;
  reduction.op = operation.op;
  reduction.divisor = step.finish ? static_cast<std::uint32_t>(endpoint_.world_) : 1;
  const auto used = static_cast<std::size_t>(std::popcount(step.sources));
  const bool scaled = operation.op == ReduceOp::kPreMulSum;
  const bool both = to != nullptr && message != nullptr;
  std::byte* destination = to != nullptr ? to : message;
  if (!scaled && !both) {
    sabot::host::reduce(reduction, destination, {sources, used}, count);
    return;
  }
  const RankMask below = step.sources & (bit(endpoint_.rank_) - 1);
  const auto own = static_cast<std::size_t>(std::popcount(below));
  const std::size_t block = kBlockBytes / element();
  std::array<const void*, kReduceSourcesMax> shifted;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    const std::size_t offset = begin * element();
    for (std::size_t s = 0; s < used; ++s)
      shifted[s] = static_cast<const std::byte*>(sources[s]) + offset;
    if (scaled) {  // first_source is 0 here: partial sums are not offered for PreMulSum
      scale(operation.type, destination + offset, shifted[own], length, &operation.premul_bits);
      shifted[own] = destination + offset;
    }
    sabot::host::reduce(reduction, destination + offset, {shifted.data(), used}, length);
    if (both) copy_bytes(message + offset, destination + offset, length * element());
  }
}

void Executor::copy() const {
  const Step& step = task_.step_;
  if (step.length(0) == 0) return;
  copy_bytes(output_at(step.to_offset), at(step.from, step.from_offset),
             step.length(0) * element());
}

}  // namespace sabot::host
