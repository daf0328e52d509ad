// All that may fire in this process: the faults of its scenario, and those that the program
// injected.
//
// The list is what the fault layer asks. Which functions concern any of them is a set of bits, so
// that a call which concerns none costs what it cost before. The scenario's plan is asked without a
// lock. A call that may concern an injection takes a lock twice, for the moments in which it takes
// the list and gives it back: no lock is held while a plan decides or a program is told, so that
// both may come back here. Injections are asked in order of arrival, after the scenario; once a
// fault takes the call's place, others that would as well only count the call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "layer/plan/injection.hpp"

namespace sabot::layer {

class PlanList final : public FaultPlan {
 public:
  // The scenario's plan outlives the list; null where the process has no faults of its own.
  explicit PlanList(ArmedPlan* scenario);

  void consider(const abi::Call& call, Firings& firings) override;
  void refuse(const abi::Call& call, const Firing& firing, const std::string& why) override;
  bool asks_captured() const override { return asks_captured_.load(); }

  bool has_scenario() const { return scenario_ != nullptr; }
  bool has_injections() const { return has_injections_.load(); }
  void add(std::shared_ptr<Injection> injection);
  // Takes it off the list; null if it is not there.
  std::shared_ptr<Injection> remove(std::uint64_t id);
  // Waits until no other thread is inside a removed injection any more; false after timeout_ns.
  bool wait_until_left(const Injection& injection, std::uint64_t timeout_ns);

  // For the time of a fork: the child must not find the list half changed.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  using Injections = std::vector<std::shared_ptr<Injection>>;
  struct Visit;

  void consider_injections(const abi::Call& call, Firings& firings);
  void replace(Injections injections);  // under mutex_

  ArmedPlan* const scenario_;
  FunctionSet scenario_functions_{};
  std::atomic<bool> has_injections_{false};
  std::atomic<bool> asks_captured_{false};
  std::mutex mutex_;
  std::condition_variable left_;
  std::shared_ptr<const Injections> injections_ = std::make_shared<const Injections>();
  std::vector<const Visit*> visits_;  // threads that are inside a version of the list
};

}  // namespace sabot::layer
