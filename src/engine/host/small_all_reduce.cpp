// Endpoint::run for a small all-reduce: the same messages as the flat schedule, without a Task.
//
// The most frequent blocking call of all, and one where everything but the exchange of a cache line
// is overhead: making a plan and stepping through a Program costs about as long as the exchange
// itself. What this puts on the wire is exactly schedule kFlat with one chunk, so ranks may differ
// in the way they run it (in a group, on a stream), and a wait that becomes long is handed to an
// ordinary Task.
#include <array>
#include <bit>
#include <cstring>

#include "engine/host/endpoint.hpp"
#include "engine/host/reduce.hpp"
#include "engine/host/signature.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {
namespace {

constexpr int kPollsBeforeTask = 256;

}  // namespace

bool Endpoint::is_small_all_reduce(const Operation& operation) const {
  return operation.kind == Operation::Kind::kCollective &&
         operation.collective == schedule::Collective::kAllReduce && world_ > 1 &&
         operation.input != nullptr && operation.output != nullptr && operation.count > 0 &&
         static_cast<int>(operation.type) < kDataTypeCount &&
         static_cast<int>(operation.op) < kReduceOpCount && !options_.algorithm &&
         schedule::is_one_flat_chunk(operation.count, bytes_of(operation.type), world_,
                                     state_->limits);
}

Status Endpoint::run_small_all_reduce(const Operation& operation) {
  State& state = *state_;
  const std::uint64_t number = state.started.fetch_add(1) + 1;
  const std::uint64_t signature = signature_of(operation);
  const auto hand_over = [&](bool was_put) {
    Task task;
    place(task, operation, number);
    if (was_put) task.resume_after_put();
    return wait(task);
  };
  if (!state.is_turn_of(number)) return hand_over(false);
  if (gate_ != nullptr && !gate_->is_idle()) return hand_over(false);
  const std::uint64_t stamp = state.base + 1;  // ours to read from here on
  if (state.window.readers_left(stamp) != 0) return hand_over(false);
  remember(*segment_, rank_, number, signature);
  const std::size_t bytes = operation.count * bytes_of(operation.type);
  const schedule::RankMask everybody = ~schedule::RankMask{0} >> (link::kRanksMax - world_);
  schedule::RankMask pending = everybody & ~bit(rank_);
  std::byte* message = state.window.target(stamp, bytes);
  const bool scaled = operation.op == ReduceOp::kPreMulSum;
  if (scaled)
    scale(operation.type, message, operation.input, operation.count, &operation.premul_bits);
  else
    std::memcpy(message, operation.input, bytes);
  state.window.publish(stamp, bytes, pending, signature);

  Waiter waiter(oversubscribed());
  std::array<const void*, kReduceSourcesMax> sources;
  for (int polls = 0; pending != 0; ++polls) {
    for (schedule::RankMask rest = pending; rest != 0; rest &= rest - 1) {
      const int source = std::countr_zero(rest);
      if (!state.window.arrived(source, stamp)) continue;
      if (state.window.signature(source, stamp) != signature)
        return mismatch(source, number, signature, state.window.signature(source, stamp));
      sources[static_cast<std::size_t>(source)] = state.window.payload(source, stamp);
      pending &= ~bit(source);
    }
    if (pending == 0) break;
    if (polls == kPollsBeforeTask) return hand_over(true);
    waiter.pause();
  }
  // My message holds my input, scaled already.
  sources[static_cast<std::size_t>(rank_)] = scaled ? message : operation.input;
  const Reduction reduction{operation.type, operation.op, static_cast<std::uint32_t>(world_),
                            Stores::kCached};
  reduce(reduction, operation.output, {sources.data(), static_cast<std::size_t>(world_)},
         operation.count);
  state.end_collective(number, 1, true);
  return {};
}

}  // namespace sabot::host
