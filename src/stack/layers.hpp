// Which layers this process has, and in which order: log(fault(engine)).
//
// The log layer is outermost, so that it shows what the application sees, injected results
// included. The fault layer is always there, as faults may be injected at any time; without any, it
// is not reached (any()). A call that is executed outside the layers goes through their two
// moments: announced() before it, concluded() after it. What faults act on is the engines': the
// seams to their streams, links and communicators are put together here.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/snapshot.hpp"
#include "layer/fault.hpp"
#include "layer/log.hpp"
#include "layer/plan/plan_list.hpp"
#include "run/recorder.hpp"
#include "scenario/scenario.hpp"
#include "stack/seams/engine_seams.hpp"

namespace sabot::stack {

// The scenario of this process: SABOT_SCENARIO and SABOT_FAULT together; no faults if neither is
// set.
Result<scenario::Scenario> load_scenario(const config::Snapshot& settings);
// A scenario that the program gives us while it runs, as a document or as one line.
Result<scenario::Scenario> read_injection(const config::Snapshot& settings, std::string_view text);

// Equal for processes that were given the same faults: counters of different plans are not merged.
std::uint64_t plan_hash(const scenario::Scenario& scenario);

class Layers {
 public:
  Layers(const config::Snapshot& settings, const seams::Beneath& beneath,
         const scenario::Scenario& scenario, run::Recorder& recorder);

  abi::Api top() const { return top_; }
  // Whether a call has anything to meet here now.
  bool any() const { return log_ != nullptr || plans_->has_scenario() || plans_->has_injections(); }
  layer::PlanList& plans() { return *plans_; }

  layer::FaultLayer::Begun announced(abi::Call& call);
  // Returns what the application is given.
  ncclResult_t concluded(abi::Call& call, layer::FaultLayer::Begun& begun, ncclResult_t result);

  // A communicator of announced calls is closed.
  void closed(const void* comm);
  // A communicator was made: what faults on its streams need is made ready.
  void created(const void* comm);

  // For the time of a fork.
  void lock();
  void unlock();
  // A forked child is disarmed until it has a communicator of its own.
  void disarm() noexcept;
  // The process ends in order.
  void flush();

 private:
  void load_added();

  const config::Snapshot& settings_;
  run::Recorder& recorder_;
  abi::Api top_;
  std::unique_ptr<layer::RunLedger> ledger_;
  std::unique_ptr<layer::ArmedPlan> scenario_plan_;
  std::unique_ptr<layer::PlanList> plans_;
  std::unique_ptr<seams::EngineSeams> engines_;
  std::unique_ptr<layer::FaultLayer> fault_;
  std::unique_ptr<layer::LogLayer> log_;
  std::mutex loading_;
  std::uint32_t loaded_ = 0;  // of the scenarios that were added while the job runs
};

}  // namespace sabot::stack
