// Running operations: batches that wait for their turn and are driven together by one thread.
//
// A batch is what one group issued on one communicator. Its operations start in order, all at once,
// because sends and receives of a group depend on each other; the endpoint keeps collectives in
// order itself. A thread may have to drive several batches at once: ranks of one communicator that
// it holds itself wait for each other.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "comm/comm.hpp"
#include "comm/data_call.hpp"

namespace sabot::comm {

struct Issued {
  const char* function = "";
  Checked checked;
  cudaStream_t stream = nullptr;
};

class Batch {
 public:
  explicit Batch(CommRef comm);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Comm& comm() { return *comm_; }
  std::vector<Issued>& operations() { return operations_; }

  // Gives it its place in the communicator's order; once, before advance().
  void take_turn() {
    turn_ = comm_->issue();
    has_turn_ = true;
  }
  // One thread at a time. kDone also if operations failed: failure() tells.
  host::Progress advance();
  // Grows whenever advance() got on.
  std::uint64_t steps() const { return steps_; }
  bool is_done() const { return done_.load(); }
  // The first failure, with the name of its function in front; ok while not done.
  const Status& failure() const { return failure_; }

 private:
  void start();
  void note(const Issued& operation, const Error& error);
  void end();
  void stop_waiting();

  CommRef comm_;
  std::vector<Issued> operations_;
  std::uint64_t turn_ = 0;
  bool has_turn_ = false;
  bool is_waiting_ = true;  // counted in Comm::waiting
  bool has_started_ = false;
  std::unique_ptr<host::Task[]> tasks_;
  std::vector<std::size_t> running_;  // indices of tasks that are not done
  std::uint64_t steps_ = 0;
  Status failure_;
  std::atomic<bool> done_{false};
};

// Advances all of them until all are done, waiting in between.
void drive(std::span<const std::shared_ptr<Batch>> batches);

// The one blocking operation: takes a turn, runs, ends the turn.
Status run_now(Comm& comm, const host::Operation& operation);

}  // namespace sabot::comm
