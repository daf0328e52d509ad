// Ending, waiting, and the texts of what takes too long.
#include "pytorch/group/work.hpp"

#include <ATen/record_function.h>

#include "pytorch/group/group.hpp"

namespace sabot::pytorch {
namespace {

using c10::ivalue::Future;

c10::intrusive_ptr<Future> new_future() {
  return c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
}

void settle(Future& future, const std::exception_ptr& failed,
            const std::vector<at::Tensor>& outputs) {
  if (failed) {
    future.setError(failed);
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

// A profiler is told only where one listens: making the record costs more than the rest.
const char* title_if_profiled(const char* title) { return at::hasCallbacks() ? title : nullptr; }

}  // namespace

void Flights::add(Flight& flight) {
  const std::lock_guard<std::mutex> lock(mutex_);
  flight.previous = last_;
  flight.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &flight;
  last_ = &flight;
}

void Flights::remove(Flight& flight) {
  const std::lock_guard<std::mutex> lock(mutex_);
  (flight.previous == nullptr ? first_ : flight.previous->next) = flight.next;
  (flight.next == nullptr ? last_ : flight.next->previous) = flight.previous;
}

bool Flights::any() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ != nullptr;
}

bool Flights::take_overdue(Clock::time_point now, Flight& overdue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Flight* flight = first_; flight != nullptr; flight = flight->next) {
    const bool is_message = ::c10d::isP2POp(flight->type);  // the mailbox keeps their time
    if (is_message || flight->is_overdue || now - flight->started < flight->timeout) continue;
    flight->is_overdue = true;
    overdue = *flight;
    return true;
  }
  return false;
}

std::string timeout_text(int rank, const Flight& flight, Clock::time_point now) {
  const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - flight.started);
  return "[Rank " + std::to_string(rank) +
         "] Watchdog caught collective operation timeout: WorkSabot(SeqNum=" +
         std::to_string(flight.sequence) + ", OpType=" + ::c10d::opTypeToString(flight.type) +
         ", NumelIn=" + std::to_string(flight.elements_in) +
         ", NumelOut=" + std::to_string(flight.elements_out) +
         ", Timeout(ms)=" + std::to_string(flight.timeout.count()) + ") ran for " +
         std::to_string(ran.count()) + " milliseconds before timing out.";
}

SabotWork::SabotWork(int rank, ::c10d::OpType type, const char* title, std::uint64_t sequence,
                     c10::ArrayRef<at::Tensor> outputs)
    : Work(rank, type, title_if_profiled(title)), outputs_(outputs.vec()), sequence_(sequence) {}

void SabotWork::keep(c10::ArrayRef<at::Tensor> tensors) {
  kept_.insert(kept_.end(), tensors.begin(), tensors.end());
}

void SabotWork::end(std::exception_ptr exception) {
  kept_.clear();
  finish(exception);
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard<std::mutex> lock(future_mutex_);
    is_over_ = true;
    future = future_;
  }
  if (future != nullptr) settle(*future, exception, outputs_);
}

bool SabotWork::wait(std::chrono::milliseconds timeout) {
  if (group_ == nullptr) return Work::wait(timeout);
  const std::uint64_t deadline_ns = timeout == kNoTimeout ? 0 : Mailbox::deadline_after(timeout);
  if (!group_->mailbox().wait([this] { return isCompleted(); }, deadline_ns)) {
    TORCH_CHECK(deadline_ns == 0, "Operation timed out!");
  }
  return Work::wait(kNoTimeout);
}

c10::intrusive_ptr<Future> SabotWork::getFuture() {
  const std::lock_guard<std::mutex> lock(future_mutex_);
  if (future_ != nullptr) return future_;
  future_ = new_future();
  if (is_over_) settle(*future_, exception(), outputs_);
  return future_;
}

namespace {

struct Left {
  std::atomic<bool> any{false};  // every operation asks, so it asks without the lock
  std::mutex mutex;
  std::vector<c10::intrusive_ptr<SabotWork>> works;
};

// Never destroyed: what is left when the process ends stays.
Left& left() {
  static auto* works = new Left();
  return *works;
}

}  // namespace

void leave_to_caller(c10::intrusive_ptr<SabotWork> work) {
  const std::lock_guard<std::mutex> lock(left().mutex);
  left().works.push_back(std::move(work));
  left().any.store(true);
}

void release_left() {
  if (!left().any.load()) return;
  std::vector<c10::intrusive_ptr<SabotWork>> released;  // let go after the lock
  const std::lock_guard<std::mutex> lock(left().mutex);
  left().any.store(false);
  released.swap(left().works);
}

bool JointWork::isCompleted() {
  for (const auto& part : parts_) {
    if (!part->isCompleted()) return false;
  }
  return true;
}

bool JointWork::isSuccess() const { return exception() == nullptr; }

std::exception_ptr JointWork::exception() const {
  for (const auto& part : parts_) {
    if (std::exception_ptr failed = part->exception()) return failed;
  }
  return nullptr;
}

bool JointWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& part : parts_) part->wait(timeout);
  synchronize();
  return true;
}

std::vector<at::Tensor> JointWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& part : parts_) {
    for (at::Tensor& tensor : part->result()) all.push_back(std::move(tensor));
  }
  return all;
}

c10::intrusive_ptr<Future> JointWork::getFuture() {
  c10::List<c10::intrusive_ptr<Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& part : parts_) futures.push_back(part->getFuture());
  return c10::collectAll(futures)->then(
      [](Future& all) {
        std::vector<at::Tensor> tensors;
        for (const c10::IValue& one : all.value().toListRef()) {
          for (const at::Tensor& tensor : one.toFuture()->value().toTensorVector()) {
            tensors.push_back(tensor);
          }
        }
        return c10::IValue(tensors);
      },
      c10::ListType::create(c10::TensorType::get()));
}

}  // namespace sabot::pytorch
