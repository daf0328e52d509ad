// What is no operation: passed through to the wrapped backend, unannounced.
#include "pytorch/library.hpp"
#include "pytorch/proxy/proxy.hpp"

namespace sabot::pytorch::proxy {
namespace {

template <typename Backend>
void copy_description(const Backend& from, Backend& to) {
  if constexpr (requires { to.setGroupUid(from.getGroupUid()); }) {
    to.setGroupUid(from.getGroupUid());
  } else {
    to.setGroupName(from.getGroupName());
  }
  if constexpr (requires { to.setGroupDesc(from.getGroupDesc()); }) {
    to.setGroupDesc(from.getGroupDesc());
  }
  if constexpr (requires { to.setBoundDeviceId(from.getBoundDeviceId()); }) {
    to.setBoundDeviceId(from.getBoundDeviceId());
  }
  if constexpr (requires { to.setUsePgForSymmMemRendezvous(true); }) {
    to.setUsePgForSymmMemRendezvous(from.getUsePgForSymmMemRendezvous());
  }
}

constexpr auto kNothing = [] {};

}  // namespace

void Proxy::hand_down() { copy_description<::c10d::Backend>(*this, *inner_); }

void Proxy::setGroupUid(const std::string& name) {
  SABOT_FORWARD(static_cast<Backend&>(*this), kNothing(), Backend::setGroupUid, name);
  hand_down();
}

void Proxy::eagerConnectSingleDevice(at::Device device) {
  hand_down();
  SABOT_FORWARD(*inner_, kNothing(), eagerConnectSingleDevice, device);
}

// Only gloo has it. Not a call of NCCL, so it is neither numbered nor faulted.
void Proxy::monitoredBarrier(const ::c10d::BarrierOptions& options, bool all_ranks) {
  check_usable("monitored_barrier");
  inner_->monitoredBarrier(options, all_ranks);
}

void Proxy::setSequenceNumberForGroup() { inner_->setSequenceNumberForGroup(); }

std::uint64_t Proxy::getSequenceNumberForGroup() { return inner_->getSequenceNumberForGroup(); }

void Proxy::registerOnCompletionHook(
    std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) {
  inner_->registerOnCompletionHook(std::move(hook));
  // torch asks this object whether there is a hook.
  onCompletionHook_ = [](const std::shared_ptr<::c10d::WorkInfo>&) {};
}

void Proxy::waitForPendingWorks() { inner_->waitForPendingWorks(); }

void Proxy::enableCollectivesTiming() { inner_->enableCollectivesTiming(); }

void Proxy::setTimeout(Milliseconds timeout) {
  SABOT_FORWARD(*inner_, kNothing(), setTimeout, timeout);
}

c10::intrusive_ptr<Proxy::Options> Proxy::getBackendOptions() {
  return SABOT_FORWARD(*inner_, c10::intrusive_ptr<Options>(), getBackendOptions);
}

ErrorOf<::c10d::Backend> Proxy::getError() {
  return SABOT_FORWARD(*inner_, ErrorOf<::c10d::Backend>{}, getError);
}

// split() itself is passed on. But whoever says yes here is taken by torch for an NCCL backend when
// a subgroup is made: it is asked for perform_nocolor_split and put into NCCL's options.
bool Proxy::supportsSplitting() const { return false; }

bool Proxy::supportsCoalescing() const { return SABOT_FORWARD(*inner_, false, supportsCoalescing); }

// An estimate is asked for by methods that only torch's own classes have.
bool Proxy::supportsTimeEstimation() const { return false; }

bool Proxy::supportsShrinking() const { return SABOT_FORWARD(*inner_, false, supportsShrinking); }

bool Proxy::supportsTensorAlloc(c10::DeviceIndex device) {
  return SABOT_FORWARD(*inner_, false, supportsTensorAlloc, device);
}

at::Tensor Proxy::allocateTensor(long size, at::TensorOptions options) {
  return SABOT_FORWARD(*inner_, at::Tensor(), allocateTensor, size, options);
}

std::shared_ptr<c10::Allocator> Proxy::getMemAllocator() {
  return SABOT_FORWARD(*inner_, std::shared_ptr<c10::Allocator>(), getMemAllocator);
}

void Proxy::suspend() { SABOT_FORWARD(*inner_, kNothing(), suspend); }

void Proxy::resume() { SABOT_FORWARD(*inner_, kNothing(), resume); }

std::unordered_map<std::string, std::uint64_t> Proxy::getMemoryStats() {
  using Statistics = std::unordered_map<std::string, std::uint64_t>;
  return SABOT_FORWARD(*inner_, Statistics(), getMemoryStats);
}

#if SABOT_TORCH_AT_LEAST(2, 14)
void Proxy::addEphemeralTimeout(const Milliseconds& timeout) {
  inner_->addEphemeralTimeout(timeout);
}

void Proxy::setBoundDeviceId(std::optional<at::Device> device) {
  Backend::setBoundDeviceId(device);
  inner_->setBoundDeviceId(device);
}
#endif

#ifdef C10D_BACKEND_HAS_RECONFIGURE
bool Proxy::supportsReconfigure() const { return inner_->supportsReconfigure(); }

::c10d::ReconfigureHandle Proxy::get_reconfigure_handle() const {
  return inner_->get_reconfigure_handle();
}

// The members change: from here on this is another communicator, with a label of its own.
WorkRef Proxy::reconfigure(const ::c10d::ReconfigureOptions& options) {
  WorkRef work = inner_->reconfigure(options);
  if (work) work->wait();
  rank_ = member_.rank = inner_->getRank();
  size_ = member_.size = inner_->getSize();
  member_.group += "@" + std::to_string(options.uuid);
  member_.global_ranks.clear();
  if (state_.load() == State::kOpen) library().comm_close(key());
  open_comm(nullptr);
  return work;
}
#endif

#ifdef C10D_BACKEND_HAS_WINDOW
bool Proxy::supportsWindow() const { return inner_->supportsWindow(); }

c10::intrusive_ptr<::c10d::Window> Proxy::new_window(const std::optional<at::Tensor>& tensor) {
  return inner_->new_window(tensor);
}
#endif

#ifdef C10D_BACKEND_HAS_HOOKS
void Proxy::registerAbortHook(std::int64_t id, ::c10d::AbortHook hook) {
  inner_->registerAbortHook(id, std::move(hook));
}

void Proxy::unregisterAbortHook(std::int64_t id) { inner_->unregisterAbortHook(id); }
#endif

}  // namespace sabot::pytorch::proxy
