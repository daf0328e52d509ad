// A backend around another one ("sabot:gloo", "sabot:nccl", a plugin): what the wrapped backend
// executes is announced to the layers as the call that torch's NCCL backend would make for it.
//
// Hence the same scenarios, log and journal also where no NCCL can be reached. One announced call
// for each operation. Everything that is no operation is passed through, and what is not known
// here because this torch is newer, is refused by torch's own base class. Works, futures and errors
// are the wrapped backend's. Methods may be called from any thread, those of one coalesced group
// from one.
//
// Methods that not every version of torch has stand here without "override"; they forward where the
// base class has them (version.hpp).
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "pytorch/announced.hpp"
#include "pytorch/group/group.hpp"
#include "pytorch/proxy/calls.hpp"
#include "pytorch/proxy/version.hpp"

namespace sabot::pytorch::proxy {

using BackendRef = c10::intrusive_ptr<::c10d::Backend>;
using StoreRef = c10::intrusive_ptr<::c10d::Store>;
using WorkRef = c10::intrusive_ptr<::c10d::Work>;

// An operation as NCCL would get it.
struct Operation {
  const char* title;     // torch's name of it
  const char* function;  // NCCL's
  Extent extent;
  const void* send = nullptr;
  void* recv = nullptr;
  int redop = -1;
  int root = -1;
  int peer = -1;
  Style style = Style::kBackendError;
  bool is_plain = false;  // both buffers are as large as NCCL's function would take them by count
};

class Proxy final : public ::c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using Sizes = std::vector<std::int64_t>;
  using Milliseconds = std::chrono::milliseconds;

  // Announces the creation of the communicator. `parent` is the key of the group that it is a part
  // of, or null. Throws the error of a fault in it.
  static c10::intrusive_ptr<Proxy> create(BackendRef inner, const std::string& inner_name,
                                          Member member, const void* parent = nullptr);
  Proxy(BackendRef inner, const std::string& inner_name, Member member);
  ~Proxy() override;

  const BackendRef& wrapped() const { return inner_; }
  const std::string getBackendName() const override { return name_; }

  // operations.cpp: announced.
  WorkRef broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  WorkRef allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  WorkRef allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  WorkRef allreduce_coalesced(Tensors& tensors,
                              const ::c10d::AllreduceCoalescedOptions& options) override;
  WorkRef reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) override;
  WorkRef allgather(TensorLists& outputs, Tensors& inputs,
                    const ::c10d::AllgatherOptions& options) override;
  WorkRef _allgather_base(at::Tensor& output, at::Tensor& input,
                          const ::c10d::AllgatherOptions& options) override;
  WorkRef allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const ::c10d::AllgatherOptions& options) override;
  WorkRef allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& options) override;
  WorkRef gather(TensorLists& outputs, Tensors& inputs,
                 const ::c10d::GatherOptions& options) override;
  WorkRef scatter(Tensors& outputs, TensorLists& inputs,
                  const ::c10d::ScatterOptions& options) override;
  WorkRef reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const ::c10d::ReduceScatterOptions& options) override;
  WorkRef _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const ::c10d::ReduceScatterOptions& options) override;
  WorkRef reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& options) override;
  WorkRef alltoall_base(at::Tensor& output, at::Tensor& input, Sizes& output_sizes,
                        Sizes& input_sizes, const ::c10d::AllToAllOptions& options) override;
  WorkRef alltoall(Tensors& outputs, Tensors& inputs,
                   const ::c10d::AllToAllOptions& options) override;
  WorkRef send(Tensors& tensors, int peer, int tag) override;
  WorkRef recv(Tensors& tensors, int peer, int tag) override;
  WorkRef recvAnysource(Tensors& tensors, int tag) override;
  WorkRef barrier(const ::c10d::BarrierOptions& options) override;
#if SABOT_TORCH_AT_LEAST(2, 14)
  // The new names of some of them.
  WorkRef all_gather_single(at::Tensor& output, at::Tensor& input,
                            const ::c10d::AllgatherOptions& options);
  WorkRef all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                      const ::c10d::AllgatherOptions& options);
  WorkRef reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const ::c10d::ReduceScatterOptions& options);
  WorkRef reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& options);
  WorkRef all_to_all_single(at::Tensor& output, at::Tensor& input, Sizes& output_sizes,
                            Sizes& input_sizes, const ::c10d::AllToAllOptions& options);
  WorkRef gather_single(at::Tensor& output, at::Tensor& input,
                        const ::c10d::GatherOptions& options);
  WorkRef gather_into_tensor(at::Tensor& output, at::Tensor& input,
                             const ::c10d::GatherOptions& options);
#endif

  // Several operations as one. A fault in one of them is thrown by endCoalescing.
  void startCoalescing() override;
  WorkRef endCoalescing() override;

  // derived.cpp: groups that come from this one; announced as CommSplit.
  BackendRef split(const StoreRef& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& options);
  BackendRef merge(const StoreRef& store, const c10::intrusive_ptr<Options>& options,
                   const int& rank, const int& size);
  BackendRef shrink(const Sizes& ranks_to_exclude, int flags,
                    const c10::intrusive_ptr<Options>& options);

  // The end, announced as CommDestroy or CommAbort. Operations are refused afterwards.
  void shutdown();
  void abort();

  // passed.cpp: passed through.
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool all_ranks) override;
  void setSequenceNumberForGroup() override;
  std::uint64_t getSequenceNumberForGroup() override;
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override;
  void setGroupUid(const std::string& name);
  void eagerConnectSingleDevice(at::Device device);
  void setTimeout(Milliseconds timeout);
  c10::intrusive_ptr<Options> getBackendOptions();
  ErrorOf<::c10d::Backend> getError();
  bool supportsSplitting() const;
  bool supportsCoalescing() const;
  bool supportsTimeEstimation() const;
  bool supportsShrinking() const;
  bool supportsTensorAlloc(c10::DeviceIndex device);
  at::Tensor allocateTensor(long size, at::TensorOptions options);
  std::shared_ptr<c10::Allocator> getMemAllocator();
  void suspend();
  void resume();
  std::unordered_map<std::string, std::uint64_t> getMemoryStats();
#if SABOT_TORCH_AT_LEAST(2, 14)
  void addEphemeralTimeout(const Milliseconds& timeout);
  void setBoundDeviceId(std::optional<at::Device> device);
#endif
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const;
  ::c10d::ReconfigureHandle get_reconfigure_handle() const;
  WorkRef reconfigure(const ::c10d::ReconfigureOptions& options);
#endif
#ifdef C10D_BACKEND_HAS_WINDOW
  bool supportsWindow() const;
  c10::intrusive_ptr<::c10d::Window> new_window(const std::optional<at::Tensor>& tensor);
#endif
#ifdef C10D_BACKEND_HAS_HOOKS
  void registerAbortHook(std::int64_t id, ::c10d::AbortHook hook);
  void unregisterAbortHook(std::int64_t id);
#endif

 private:
  enum class State : std::uint8_t { kNew, kOpen, kShutDown, kAborted };
  using Execution = c10::function_ref<WorkRef()>;

  const void* key() const { return this; }
  void open_comm(const void* parent);
  // Announces the operation and lets the wrapped backend execute it, unless a fault forbids it.
  WorkRef run(const Operation& operation, Execution execution, Place place = here());
  WorkRef execute(Announced& call, Execution execution);
  // The handle of an operation that a fault left out, complete.
  WorkRef left_out(const char* title) const;
  void check_usable(const char* title) const;
  // What torch has told this object and not the wrapped one, since not all of it is virtual.
  void hand_down();
  void end(State state, const char* function, c10::function_ref<void()> execution, Place place);
  BackendRef wrap_child(const BackendRef& child, Member member, const void* parent);

  BackendRef inner_;
  std::string inner_name_;
  std::string name_;
  Member member_;
  std::atomic<State> state_{State::kNew};
  std::once_flag described_;
  float barrier_element_ = 0;  // what NCCL would reduce; nobody touches it
  pid_t pid_;

  // Between startCoalescing and endCoalescing.
  bool is_coalescing_ = false;
  bool is_awaited_ = false;       // an `after` fault: the operations are to be complete
  std::exception_ptr postponed_;  // of the first fault
};

}  // namespace sabot::pytorch::proxy
