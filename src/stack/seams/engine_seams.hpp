// What faults reach of the engines: their streams, their links, and who else is in this process.
//
// One engine a lane: the process's own, the host engine beside a real one, and calls that somebody
// else executes, of which at most the memory can be reached. Nothing is opened before a fault needs
// it.
#pragma once

#include <memory>

#include "call/registry.hpp"
#include "layer/effects/cuda_effects.hpp"
#include "layer/effects/link_rules.hpp"
#include "layer/fault.hpp"
#include "scenario/scenario.hpp"
#include "stack/seams/host_effects.hpp"

namespace sabot::stack {
class RealEngine;
}  // namespace sabot::stack

namespace sabot::stack::seams {

// What the layers are put over.
struct Beneath {
  abi::Api engine;
  const RealEngine* real = nullptr;  // null: it is the host engine
  call::Registry* registry = nullptr;
};

class EngineSeams {
 public:
  EngineSeams(const Beneath& beneath, const scenario::Scenario& scenario);
  EngineSeams(const EngineSeams&) = delete;
  EngineSeams& operator=(const EngineSeams&) = delete;

  // Valid as long as this.
  layer::FaultSeams seams();
  // Makes ready what faults on the streams of this communicator need; else the first one does.
  void prepare(const void* comm);

 private:
  Result<int> device_of(const void* comm) const;

  const Beneath beneath_;
  HostEffects host_streams_;
  layer::RuledLinks host_links_;
  layer::RuledLinks net_links_;
  std::unique_ptr<layer::CudaEffects> cuda_streams_;
};

}  // namespace sabot::stack::seams
