// Versions of the list, and the threads that are inside one.
#include "layer/plan/plan_list.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "abi/names.hpp"

namespace sabot::layer {

// One thread's stay in one version of the list; on its stack, entered in visits_.
struct PlanList::Visit {
  Visit(PlanList& list_asked, std::thread::id by) : list(list_asked), thread(by) {
    const std::lock_guard lock(list.mutex_);
    injections = list.injections_;
    list.visits_.push_back(this);
  }
  ~Visit() {
    const std::lock_guard lock(list.mutex_);
    std::erase(list.visits_, this);
    list.left_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  bool holds(const Injection& injection) const {
    return std::any_of(injections->begin(), injections->end(),
                       [&injection](const auto& held) { return held.get() == &injection; });
  }

  PlanList& list;
  const std::thread::id thread;
  std::shared_ptr<const Injections> injections;
};

PlanList::PlanList(ArmedPlan* scenario) : scenario_(scenario) {
  for (const abi::FunctionInfo& row : abi::all_functions())
    if (scenario != nullptr && scenario->concerns(row.id))
      FaultPlan::add(scenario_functions_, row.id);
  set_concerns(scenario_functions_);
  asks_captured_.store(scenario != nullptr && scenario->asks_captured());
}

void PlanList::consider(const abi::Call& call, Firings& firings) {
  if (scenario_ != nullptr && scenario_->concerns(call.function))
    scenario_->consider(call, firings);
  if (has_injections()) consider_injections(call, firings);
}

void PlanList::consider_injections(const abi::Call& call, Firings& firings) {
  const Visit visit(*this, std::this_thread::get_id());
  for (const std::shared_ptr<Injection>& injection : *visit.injections)
    if (injection->plan().concerns(call.function)) injection->plan().consider(call, firings);
}

void PlanList::refuse(const abi::Call& call, const Firing& firing, const std::string& why) {
  if (scenario_ != nullptr && firing.fault.plan == scenario_->number())
    return scenario_->refuse(call, firing, why);
  const Visit visit(*this, std::this_thread::get_id());
  for (const std::shared_ptr<Injection>& injection : *visit.injections)
    if (injection->plan().number() == firing.fault.plan)
      return injection->plan().refuse(call, firing, why);
}

void PlanList::add(std::shared_ptr<Injection> injection) {
  const std::lock_guard lock(mutex_);
  Injections next = *injections_;
  next.push_back(std::move(injection));
  replace(std::move(next));
}

std::shared_ptr<Injection> PlanList::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Injections next = *injections_;
  const auto found = std::find_if(next.begin(), next.end(),
                                  [id](const auto& injection) { return injection->id() == id; });
  if (found == next.end()) return nullptr;
  std::shared_ptr<Injection> removed = *found;
  next.erase(found);
  replace(std::move(next));
  return removed;
}

void PlanList::replace(Injections injections) {
  FunctionSet functions = scenario_functions_;
  for (const std::shared_ptr<Injection>& injection : injections)
    for (const abi::FunctionInfo& row : abi::all_functions())
      if (injection->plan().concerns(row.id)) FaultPlan::add(functions, row.id);
  const bool any = !injections.empty();
  bool asks_captured = scenario_ != nullptr && scenario_->asks_captured();
  for (const std::shared_ptr<Injection>& injection : injections)
    asks_captured = asks_captured || injection->plan().asks_captured();
  asks_captured_.store(asks_captured);
  injections_ = std::make_shared<const Injections>(std::move(injections));
  has_injections_.store(any);
  set_concerns(functions);
}

bool PlanList::wait_until_left(const Injection& injection, std::uint64_t timeout_ns) {
  const std::thread::id self = std::this_thread::get_id();
  std::unique_lock lock(mutex_);
  return left_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] {
    return std::none_of(visits_.begin(), visits_.end(), [&](const Visit* visit) {
      return visit->thread != self && visit->holds(injection);
    });
  });
}

}  // namespace sabot::layer
