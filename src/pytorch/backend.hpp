// torch.distributed's backend "sabot": collectives of CPU tensors over the host engine's layers.
//
// Every method makes the NCCL calls that torch's own NCCL backend makes for it, so that a scenario
// meets the same calls here and on GPUs. Nothing takes Python's lock. Tensors are used in place;
// only lists of tensors that NCCL has no call for go through a staging tensor, as in torch's own
// backend. Methods may be called from any thread, in the same order on all ranks.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "pytorch/group/coalesced.hpp"
#include "pytorch/group/launch.hpp"

namespace sabot::pytorch {

using StoreRef = c10::intrusive_ptr<::c10d::Store>;

class SabotBackend final : public ::c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using Milliseconds = std::chrono::milliseconds;

  // Meets the other ranks through the store. Throws DistBackendError, naming the rank that did not
  // come or could not begin.
  static c10::intrusive_ptr<SabotBackend> create(StoreRef store, Member member);

  SabotBackend(StoreRef store, std::shared_ptr<Group> group);
  ~SabotBackend() override;

  const std::string getBackendName() const override { return "sabot"; }
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
  WorkRef alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const ::c10d::AllToAllOptions& options) override;
  WorkRef alltoall(Tensors& outputs, Tensors& inputs,
                   const ::c10d::AllToAllOptions& options) override;
  WorkRef send(Tensors& tensors, int peer, int tag) override;
  WorkRef recv(Tensors& tensors, int peer, int tag) override;
  WorkRef recvAnysource(Tensors& tensors, int tag) override;
  WorkRef barrier(const ::c10d::BarrierOptions& options) override;
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool all_ranks) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return group_->collectives(); }
  void startCoalescing() override;
  WorkRef endCoalescing() override;
  bool supportsCoalescing() const { return true; }

  // Not in every version of torch that this compiles against, hence without "override".
  bool supportsSplitting() const { return true; }
  c10::intrusive_ptr<::c10d::Backend> split(const StoreRef& store, const std::vector<int>& ranks,
                                            const c10::intrusive_ptr<Options>& options);
  c10::intrusive_ptr<Options> getBackendOptions();
  void setTimeout(Milliseconds timeout) { group_->set_timeout(timeout); }
  void abort();
  void shutdown();

 private:
  template <typename Issue>
  WorkRef start(const Request& request, Issue issue, After after = {}) {
    if (coalesced_ != nullptr) return coalesced_->add(request, std::move(issue), std::move(after));
    return launch(*group_, request, std::move(issue), std::move(after));
  }
  WorkRef message(::c10d::OpType type, const at::Tensor& tensor, int peer, int tag);

  StoreRef store_;
  std::shared_ptr<Group> group_;
  at::Tensor barrier_;  // the one element that a barrier reduces
  std::uint64_t monitored_barriers_ = 0;
  std::uint64_t splits_ = 0;
  std::unique_ptr<Coalesced> coalesced_;  // between startCoalescing and endCoalescing
};

}  // namespace sabot::pytorch
