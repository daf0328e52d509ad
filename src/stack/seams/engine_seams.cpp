// Putting the seams of each engine together.
#include "stack/seams/engine_seams.hpp"

#include <string>
#include <vector>

#include "driver/cuda_driver.hpp"

namespace sabot::stack::seams {
namespace {

using layer::LinkRules;

std::vector<std::string> names_of(const scenario::Scenario& scenario) {
  std::vector<std::string> names;
  for (const scenario::Fault& fault : scenario.faults) names.push_back(fault.name);
  return names;
}

constexpr std::size_t index_of(abi::Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

EngineSeams::EngineSeams(const Beneath& beneath, const scenario::Scenario& scenario)
    : beneath_(beneath),
      host_links_(LinkRules::process(), LinkRules::Carrier::kHostEngine, names_of(scenario)),
      net_links_(LinkRules::process(), LinkRules::Carrier::kNetPlugin, names_of(scenario)) {
  if (beneath_.real == nullptr) return;
  cuda_streams_ = std::make_unique<layer::CudaEffects>(
      []() -> Result<std::unique_ptr<driver::Driver>> {
        std::unique_ptr<driver::Driver> opened = SABOT_TRY(driver::CudaDriver::open());
        return opened;
      },
      [this](const void* comm) { return device_of(comm); });
}

Result<int> EngineSeams::device_of(const void* comm) const {
  const call::CommRecord* record = beneath_.registry->find(comm);
  if (record == nullptr) return Error(Code::kNotFound, "the communicator has no device yet");
  abi::Call call;
  call.target = record->target;
  int device = -1;
  auto* handle = static_cast<ncclComm_t>(const_cast<void*>(comm));
  const ncclResult_t asked =
      beneath_.engine.table->CommCuDevice(beneath_.engine.self, &call, handle, &device);
  if (asked != ncclSuccess) return Error(Code::kCuda, "NCCL does not say which device it uses");
  return device;
}

void EngineSeams::prepare(const void* comm) {
  if (cuda_streams_ == nullptr) return;
  const Result<int> device = device_of(comm);
  if (device.ok()) cuda_streams_->prepare(*device).ignore();  // the first fault says what is wrong
}

layer::FaultSeams EngineSeams::seams() {
  layer::FaultSeams seams;
  const bool is_real = beneath_.real != nullptr;
  layer::StreamEffects* own = &host_streams_;
  if (is_real) own = cuda_streams_.get();
  seams.streams[index_of(abi::Lane::kProcess)] = own;
  seams.streams[index_of(abi::Lane::kBeside)] = &host_streams_;
  seams.streams[index_of(abi::Lane::kAnnounced)] = &host_streams_;
  seams.links[index_of(abi::Lane::kProcess)] = is_real ? &net_links_ : &host_links_;
  seams.links[index_of(abi::Lane::kBeside)] = &host_links_;
  seams.is_real[index_of(abi::Lane::kProcess)] = is_real;
  seams.is_gone = [this](const void* comm) { return beneath_.registry->is_retired(comm); };
  seams.shares_process = [this](const abi::Call& call) {
    return beneath_.registry->has_sibling(call.comm);
  };
  return seams;
}

}  // namespace sabot::stack::seams
