// Driving batches: see launch.hpp.
#include "comm/launch.hpp"

#include <algorithm>

namespace sabot::comm {

using host::Progress;

Batch::Batch(CommRef comm) : comm_(std::move(comm)) { comm_->waiting.fetch_add(1); }

Batch::~Batch() {
  stop_waiting();
  if (has_turn_ && !is_done()) end();  // unfinished tasks abort their endpoint as they go
}

void Batch::stop_waiting() {
  if (is_waiting_) comm_->waiting.fetch_sub(1);
  is_waiting_ = false;
}

void Batch::end() {
  tasks_.reset();
  comm_->end_turn();
  done_.store(true);
}

void Batch::note(const Issued& operation, const Error& error) {
  if (failure_.ok()) failure_ = Error(error).context(operation.function);
}

void Batch::start() {
  has_started_ = true;
  tasks_ = std::make_unique<host::Task[]>(operations_.size());
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Checked& checked = operations_[i].checked;
    if (checked.is_nothing) continue;
    const Status started = comm_->seat.endpoint->start(tasks_[i], checked.ready());
    if (started.ok()) {
      running_.push_back(i);
    } else {
      note(operations_[i], started.error());
    }
  }
}

Progress Batch::advance() {
  if (is_done()) return Progress::kDone;
  stop_waiting();
  if (!has_started_) {
    const bool due = comm_->is_due(turn_);
    if (!due && !comm_->seat.endpoint->aborted()) return Progress::kBlocked;
    start();
    ++steps_;
  }
  std::erase_if(running_, [this](std::size_t i) {
    const std::uint64_t before = tasks_[i].steps();
    const Progress progress = tasks_[i].advance();
    if (progress == Progress::kFailed) note(operations_[i], tasks_[i].status().error());
    if (progress != Progress::kBlocked || tasks_[i].steps() != before) ++steps_;
    return progress != Progress::kBlocked;
  });
  if (!running_.empty()) return Progress::kBlocked;
  end();
  return Progress::kDone;
}

void drive(std::span<const std::shared_ptr<Batch>> batches) {
  const bool oversubscribed =
      std::any_of(batches.begin(), batches.end(), [](const std::shared_ptr<Batch>& batch) {
        return batch->comm().seat.endpoint->oversubscribed();
      });
  host::Waiter waiter(oversubscribed);
  for (;;) {
    bool all_done = true;
    std::uint64_t moved = 0;
    for (const std::shared_ptr<Batch>& batch : batches) {
      const std::uint64_t before = batch->steps();
      if (batch->advance() != Progress::kDone) all_done = false;
      moved += batch->steps() - before;
    }
    if (all_done) return;
    if (moved != 0) {
      waiter.reset();
    } else {
      waiter.pause();
    }
  }
}

Status run_now(Comm& comm, const host::Operation& operation) {
  const std::uint64_t turn = comm.issue();
  Status outcome;
  if (!comm.is_due(turn)) outcome = comm.await_turn(turn);
  if (outcome.ok()) outcome = comm.seat.endpoint->run(operation);
  comm.end_turn();
  return outcome;
}

}  // namespace sabot::comm
