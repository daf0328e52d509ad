// Runs the steps of a collective's schedule on real memory. Private to this module.
//
// A step either happens as a whole, or not at all and leaves in the watch whom it waits for;
// several sources of one step may be taken as they arrive.
#pragma once

#include "engine/host/endpoint.hpp"
#include "engine/host/reduce.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {

class Executor {
 public:
  explicit Executor(Task& task)
      : endpoint_(*task.endpoint_), state_(*task.endpoint_->state_), task_(task) {}

  // Precondition: a collective that was started and is neither done nor failed.
  Progress advance();

 private:
  enum class Outcome : std::uint8_t { kDone, kWaiting, kFailed };

  void begin();
  Progress finish();
  void take_step();
  Outcome attempt();
  Outcome put();
  Outcome get();
  Outcome reduce();
  void copy() const;
  // What link faults say of this step's message. kDone: it may go, or be lost.
  Outcome pass(schedule::RankMask readers, std::size_t bytes, bool& is_lost);

  std::uint64_t stamp_of(std::uint64_t message) const { return state_.base + message + 1; }
  bool has_credit(std::uint64_t stamp);
  // Looks for the current step's message of every pending rank; calls arrived(rank) for each.
  template <typename Arrived>
  Outcome poll(Arrived&& arrived);
  void consumed(schedule::RankMask sources);
  void combine(const void* const* sources, std::size_t count, std::byte* to, std::byte* message);

  // How results are stored that nobody reads again here.
  Stores stores() const;

  std::size_t element() const { return bytes_of(task_.operation_.type); }
  const std::byte* at(schedule::Buffer buffer, std::uint64_t offset) const;
  std::byte* output_at(std::uint64_t offset) const;

  Endpoint& endpoint_;
  Endpoint::State& state_;
  Task& task_;
};

}  // namespace sabot::host
