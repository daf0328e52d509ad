// The handle of one operation, and the list of those that are under way.
//
// A blocking operation has ended when its Work is made. An asynchronous one ends in a thread of the
// host engine's stream, or of the mailbox, which finishes the Work: waiters wake, the future is
// marked, the tensors are let go. A Flight is what the watchdog knows of an operation under way.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "pytorch/errors.hpp"
#include "pytorch/group/recorder.hpp"

namespace sabot::pytorch {

class Group;

using Clock = std::chrono::steady_clock;

struct Flight {
  ::c10d::OpType type = ::c10d::OpType::UNKNOWN;
  std::uint64_t sequence = 0;
  std::int64_t elements_in = 0;
  std::int64_t elements_out = 0;
  std::chrono::milliseconds timeout{0};
  Clock::time_point started;
  std::uint64_t row = Recorder::kNoRow;
  bool is_overdue = false;
  Flight* next = nullptr;
  Flight* previous = nullptr;
};

// Of one group. Thread-safe; a flight must be removed before it dies.
class Flights {
 public:
  void add(Flight& flight);
  void remove(Flight& flight);
  bool any() const;
  // Marks the oldest flight whose time is over and that was not marked before, and returns a copy
  // of it in `overdue`; false if there is none.
  bool take_overdue(Clock::time_point now, Flight& overdue);

 private:
  mutable std::mutex mutex_;
  Flight* first_ = nullptr;
  Flight* last_ = nullptr;
};

// "[Rank 1] Watchdog caught collective operation timeout: WorkSabot(SeqNum=7, …) ran for … ": the
// words of torch's own watchdog.
std::string timeout_text(int rank, const Flight& flight, Clock::time_point now);

class SabotWork final : public ::c10d::Work {
 public:
  SabotWork(int rank, ::c10d::OpType type, const char* title, std::uint64_t sequence,
            c10::ArrayRef<at::Tensor> outputs);

  // Ends it, well or with an exception. Once.
  void end(std::exception_ptr exception = nullptr);
  void set_source(int rank) { source_ = rank; }
  // Whoever waits moves this group's messages meanwhile.
  void drive_by(std::shared_ptr<Group> group) { group_ = std::move(group); }
  // Kept until the end: tensors that the operation reads.
  void keep(c10::ArrayRef<at::Tensor> tensors);

  std::vector<at::Tensor> result() override { return outputs_; }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  int sourceRank() const override { return source_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  std::shared_ptr<Group> group_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> kept_;
  std::uint64_t sequence_;
  int source_ = -1;
  std::mutex future_mutex_;
  bool is_over_ = false;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Takes a finished work from a thread of ours, which must not be the one to let go of its tensors:
// that may need Python's lock, and a thread that waits for it while Python ends is unwound. The
// next caller of an operation lets go.
void leave_to_caller(c10::intrusive_ptr<SabotWork> work);
void release_left();

// Several at once: what endCoalescing returns.
class JointWork final : public ::c10d::Work {
 public:
  JointWork(int rank, std::vector<c10::intrusive_ptr<::c10d::Work>> parts)
      : Work(rank, ::c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<::c10d::Work>> parts_;
};

}  // namespace sabot::pytorch
