// Life of an endpoint and of its tasks: opening, places in the queues, running, finalizing,
// leaving.
#include "engine/host/endpoint.hpp"

#include <unistd.h>

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
      pid_(getpid()),
      rank_(rank),
      world_(segment_->ranks()),
      state_(std::make_unique<State>(*segment_, rank)) {}

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
  const link::CpuMask cpus = link::affinity();
  for (std::size_t i = 0; i < cpus.size(); ++i) segment->cpu_mask(rank)[i].store(cpus[i]);
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(segment), rank, liveness, options));
}

Endpoint::~Endpoint() {
  if (getpid() != pid_) return;
  // An abort by another thread may come first; it stands.
  Presence present = Presence::kPresent;
  segment_->presence(rank_).compare_exchange_strong(present, Presence::kLeft);
}

// Ranks may be bound to different processors, so only all of them together know how many there are.
bool Endpoint::oversubscribed() const {
  using Crowd = State::Crowd;
  // relaxed: whichever rank computes it gets the same
  const Crowd known = state_->crowd.load(std::memory_order_relaxed);
  if (known != Crowd::kUnknown) return known == Crowd::kYes;
  link::CpuMask all{};
  for (int r = 0; r < world_; ++r) {
    link::CpuMask told{};
    for (std::size_t i = 0; i < told.size(); ++i) told[i] = segment_->cpu_mask(r)[i].load();
    if (link::count_cpus(told) == 0) return segment_->geometry().ranks > segment_->geometry().cpus;
    for (std::size_t i = 0; i < told.size(); ++i) all[i] |= told[i];
  }
  const int quota = link::quota_cpus();
  const int cpus = link::count_cpus(all);
  const bool crowded = world_ > (quota > 0 ? std::min(quota, cpus) : cpus);
  state_->crowd.store(crowded ? Crowd::kYes : Crowd::kNo, std::memory_order_relaxed);
  return crowded;
}

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

Status Endpoint::claim_channel(const Operation& operation) {
  if (operation.kind == Operation::Kind::kCollective) return {};
  const bool sends = operation.kind == Operation::Kind::kSend;
  const auto peer = static_cast<std::size_t>(operation.peer);
  Direction& direction = sends ? state_->sends[peer] : state_->receives[peer];
  if (direction.claim(Direction::Use::kMessages)) return {};
  const std::string rank = "rank " + std::to_string(operation.peer);
  return Error(Code::kInvalidUsage,
               sends ? "Send: the channel to " + rank +
                           " carries raw bytes (sabot_channel_put); send on another communicator"
                     : "Recv: the channel from " + rank +
                           " carries raw bytes (sabot_channel_take); receive on another "
                           "communicator");
}

// A place is a promise to peers: nothing may fail between taking it and running the task.
void Endpoint::place(Task& task, const Operation& operation, std::uint64_t number) {
  task.endpoint_ = this;
  task.operation_ = operation;
  task.signature_ = signature_of(operation);
  task.place_ = number;
  task.state_ = Task::State::kQueued;
  if (operation.kind == Operation::Kind::kCollective) {
    const schedule::Request request = request_of(operation, rank_, world_);
    task.program_ = schedule::Program(request, plan(request));
  }
}

Status Endpoint::start(Task& task, const Operation& operation) {
  SABOT_ASSERT(task.state_ == Task::State::kIdle);
  SABOT_TRY(check(operation, rank_, world_));
  SABOT_TRY(usable());
  const auto peer = static_cast<std::size_t>(operation.peer);
  SABOT_TRY(claim_channel(operation));
  switch (operation.kind) {
    case Operation::Kind::kCollective:
      place(task, operation, state_->started.fetch_add(1) + 1);
      break;
    case Operation::Kind::kSend:
      place(task, operation, state_->sends[peer].started.fetch_add(1));
      break;
    case Operation::Kind::kRecv:
      place(task, operation, state_->receives[peer].started.fetch_add(1));
      break;
  }
  return {};
}

Status Endpoint::wait(Task& task) {
  Progress progress = task.advance();
  Waiter waiter(oversubscribed());
  std::uint64_t steps = task.steps();
  while (progress == Progress::kBlocked) {
    waiter.pause();
    progress = task.advance();
    if (task.steps() != steps) waiter.reset();
    steps = task.steps();
  }
  return task.take_status();
}

Status Endpoint::run(const Operation& operation) {
  if (is_small_all_reduce(operation)) {
    SABOT_TRY(usable());
    return run_small_all_reduce(operation);
  }
  Task task;
  SABOT_TRY(start(task, operation));
  return wait(task);
}

void Endpoint::abort() {
  aborted_.store(true);
  if (getpid() != pid_) return;
  segment_->presence(rank_).store(Presence::kAborted);
}

Progress Endpoint::advance_finalize() {
  State& state = *state_;
  if (!usable().ok()) return Progress::kFailed;
  bool idle = state.is_turn_of(state.started.load() + 1);
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
    // Bytes stay for a peer to take after this rank has left; messages are waited for, as in NCCL.
    const bool all_taken = state.window.has_read_all(peer) &&
                           (sends.use.load() != Direction::Use::kMessages ||
                            segment_->channel_consumed(rank_, peer).load() == sends.chunks);
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

void Task::resume_after_put() {
  state_ = State::kRunning;
  program_.next(step_);
  has_step_ = program_.next(step_);
  pending_ = step_.sources & ~bit(endpoint_->rank());
}

std::uint64_t Task::number() const {
  return operation_.kind == Operation::Kind::kCollective ? place_ : 0;
}

Task::~Task() {
  if (state_ == State::kQueued || state_ == State::kRunning) endpoint_->abort();
}

}  // namespace sabot::host
