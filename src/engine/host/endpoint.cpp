// Life of an endpoint and of its tasks: opening, places in the queues, running, finalizing,
// leaving.
#include "engine/host/endpoint.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "engine/host/exchange.hpp"
#include "engine/host/executor.hpp"
#include "engine/host/signature.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {

using link::Presence;
using schedule::RankMask;

Endpoint::Endpoint(std::shared_ptr<link::Segment> segment, int rank, Liveness* liveness,
                   Options options)
    : segment_(std::move(segment)),
      liveness_(liveness),
      options_(options),
      rank_(rank),
      world_(segment_->ranks()),
      state_(std::make_unique<State>()) {
  const link::Geometry& geometry = segment_->geometry();
  state_->limits = {geometry.slots, geometry.slot_bytes, geometry.ranks > geometry.cpus};
  for (int r = 0; r < world_; ++r)
    state_->windows[static_cast<std::size_t>(r)] = segment_->window(r);
}

Result<std::unique_ptr<Endpoint>> Endpoint::open(std::shared_ptr<link::Segment> segment, int rank,
                                                 Liveness* liveness, Options options) {
  if (rank < 0 || rank >= segment->ranks())
    return Error(Code::kInvalidArgument, "opening rank " + std::to_string(rank) +
                                             " of a communicator of " +
                                             std::to_string(segment->ranks()) + " ranks");
  Presence absent = Presence::kAbsent;
  if (!segment->presence(rank).compare_exchange_strong(absent, Presence::kPresent))
    return Error(Code::kInvalidUsage, "opening rank " + std::to_string(rank) +
                                          ": somebody has opened this rank already");
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(segment), rank, liveness, options));
}

Endpoint::~Endpoint() {
  // An abort by another thread may come first; it stands.
  Presence present = Presence::kPresent;
  segment_->presence(rank_).compare_exchange_strong(present, Presence::kLeft);
}

bool Endpoint::oversubscribed() const { return state_->limits.oversubscribed; }

Status Endpoint::usable() const {
  if (aborted()) return aborted_error();
  if (segment_->failed()) return error_of(*segment_->failure());
  return {};
}

schedule::Plan Endpoint::plan(const schedule::Request& request) const {
  if (options_.algorithm)
    if (const auto wanted = schedule::plan_for(*options_.algorithm, request, state_->limits))
      return *wanted;
  return schedule::choose(request, state_->limits);
}

Status Endpoint::start(Task& task, const Operation& operation) {
  SABOT_ASSERT(task.state_ == Task::State::kIdle);
  SABOT_TRY(check(operation, rank_, world_));
  SABOT_TRY(usable());
  task.endpoint_ = this;
  task.operation_ = operation;
  task.signature_ = signature_of(operation);
  task.state_ = Task::State::kQueued;
  const auto peer = static_cast<std::size_t>(operation.peer);
  switch (operation.kind) {
    case Operation::Kind::kCollective: {
      const schedule::Request request = request_of(operation, rank_, world_);
      task.program_ = schedule::Program(request, plan(request));
      task.place_ = state_->started.fetch_add(1) + 1;
      break;
    }
    case Operation::Kind::kSend: task.place_ = state_->sends[peer].started.fetch_add(1); break;
    case Operation::Kind::kRecv: task.place_ = state_->receives[peer].started.fetch_add(1); break;
  }
  return {};
}

Status Endpoint::run(const Operation& operation) {
  Task task;
  SABOT_TRY(start(task, operation));
  Progress progress = task.advance();
  if (progress == Progress::kBlocked) {
    Waiter waiter(oversubscribed());
    std::uint64_t steps = task.steps();
    do {
      waiter.pause();
      progress = task.advance();
      if (task.steps() != steps) waiter.reset();
      steps = task.steps();
    } while (progress == Progress::kBlocked);
  }
  return task.take_status();
}

void Endpoint::abort() {
  aborted_.store(true);
  segment_->presence(rank_).store(Presence::kAborted);
}

Progress Endpoint::advance_finalize() {
  State& state = *state_;
  if (!usable().ok()) return Progress::kFailed;
  // Acquire pairs with: finish
  bool idle = state.turn.load(std::memory_order_acquire) == state.started.load() + 1;
  RankMask waiting = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(world_); ++r) {
    const int peer = static_cast<int>(r);
    Direction& sends = state.sends[r];
    idle = idle && sends.turn.load() == sends.started.load() &&
           state.receives[r].turn.load() == state.receives[r].started.load();
    if (!idle) return Progress::kBlocked;
    const Presence presence = segment_->presence(peer).load();
    if (presence == Presence::kLeft || presence == Presence::kAborted)
      continue;  // will not take it
    const std::uint64_t taken =
        std::max(segment_->completed(peer).load(), segment_->consumed(peer, rank_).load());
    bool all_taken = segment_->channel_consumed(rank_, peer).load() == sends.chunks;
    for (const State::Put& put : state.puts)
      all_taken = all_taken && ((put.readers >> r & 1) == 0 || put.stamp <= taken);
    if (!all_taken) waiting |= RankMask{1} << r;
  }
  if (waiting == 0) return Progress::kDone;
  state.finalize_watch.waiting = waiting;
  return look(state.finalize_watch, 0, 0).ok() ? Progress::kBlocked : Progress::kFailed;
}

Status Endpoint::finalize() {
  Waiter waiter(oversubscribed());
  Progress progress = advance_finalize();
  while (progress == Progress::kBlocked) {
    waiter.pause();
    progress = advance_finalize();
  }
  return progress == Progress::kDone ? Status{} : async_error();
}

Progress Task::advance() {
  switch (state_) {
    case State::kIdle: return Progress::kDone;
    case State::kDone: return Progress::kDone;
    case State::kFailed: return Progress::kFailed;
    case State::kQueued:
    case State::kRunning: break;
  }
  if (operation_.kind == Operation::Kind::kCollective) return Executor(*this).advance();
  return Exchange(*this).advance();
}

std::uint64_t Task::number() const {
  return operation_.kind == Operation::Kind::kCollective ? place_ : 0;
}

Task::~Task() {
  if (state_ == State::kQueued || state_ == State::kRunning) endpoint_->abort();
}

}  // namespace sabot::host
