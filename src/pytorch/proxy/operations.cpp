// Each operation as the one call that stands for it, which is where torch's NCCL backend has one
// the same; gathers and scatters are its sends and receives, with the peer where there is one.
#include "pytorch/proxy/proxy.hpp"
#include "pytorch/tensors.hpp"

namespace sabot::pytorch::proxy {
namespace {

using Tensors = Proxy::Tensors;
using TensorLists = Proxy::TensorLists;

constexpr int kAllPeers = -1;

Extent extent_of(const TensorLists& lists) {
  return lists.empty() ? Extent{} : proxy::extent_of(lists.front());
}

// A buffer that is read and written.
Operation in_place(const char* title, const char* function, const Extent& extent) {
  return {.title = title,
          .function = function,
          .extent = extent,
          .send = extent.data,
          .recv = extent.data,
          .is_plain = extent.is_plain};
}

Operation between(const char* title, const char* function, const Extent& counted,
                  const Extent& from, const Extent& to) {
  return {.title = title,
          .function = function,
          .extent = counted,
          .send = from.data,
          .recv = to.data,
          .is_plain = counted.is_plain && from.is_plain && to.is_plain};
}

Operation reducing(Operation operation, const ::c10d::ReduceOp& op) {
  operation.redop = nccl_redop(op, operation.extent.is_bool);
  return operation;
}

Operation sending(const char* title, const Extent& extent, int peer) {
  return {.title = title,
          .function = "Send",
          .extent = extent,
          .send = extent.data,
          .peer = peer,
          .is_plain = extent.is_plain};
}

Operation receiving(const char* title, const Extent& extent, int peer) {
  return {.title = title,
          .function = "Recv",
          .extent = extent,
          .recv = extent.data,
          .peer = peer,
          .is_plain = extent.is_plain};
}

// What a rank sends to each other one, on average where that differs; then no size follows from it.
Extent share(Extent extent, int ranks) {
  extent.count /= static_cast<std::uint64_t>(ranks);
  extent.bytes /= static_cast<std::uint64_t>(ranks);
  extent.is_plain = false;
  return extent;
}

Operation plain(Operation operation) {
  operation.style = Style::kPlain;
  return operation;
}

}  // namespace

WorkRef Proxy::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  Operation operation = in_place("broadcast", "Bcast", proxy::extent_of(tensors));
  operation.root = static_cast<int>(options.rootRank);
  return run(operation, [&] { return inner_->broadcast(tensors, options); });
}

WorkRef Proxy::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const Operation operation =
      reducing(in_place("all_reduce", "AllReduce", proxy::extent_of(tensors)), options.reduceOp);
  return run(operation, [&] { return inner_->allreduce(tensors, options); });
}

WorkRef Proxy::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const Operation operation =
      reducing(in_place("all_reduce", "AllReduce", proxy::extent_of(tensors)), options.reduceOp);
  return run(operation, [&] { return inner_->allreduce_sparse(tensors, options); });
}

WorkRef Proxy::allreduce_coalesced(Tensors& tensors,
                                   const ::c10d::AllreduceCoalescedOptions& options) {
  const Operation operation = reducing(
      in_place("all_reduce_coalesced", "AllReduce", proxy::extent_of(tensors)), options.reduceOp);
  return run(operation, [&] { return inner_->allreduce_coalesced(tensors, options); });
}

WorkRef Proxy::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  Operation operation =
      reducing(in_place("reduce", "Reduce", proxy::extent_of(tensors)), options.reduceOp);
  operation.root = static_cast<int>(options.rootRank);
  return run(operation, [&] { return inner_->reduce(tensors, options); });
}

WorkRef Proxy::allgather(TensorLists& outputs, Tensors& inputs,
                         const ::c10d::AllgatherOptions& options) {
  const Extent from = proxy::extent_of(inputs);
  return run(between("all_gather", "AllGather", from, from, extent_of(outputs)),
             [&] { return inner_->allgather(outputs, inputs, options); });
}

WorkRef Proxy::_allgather_base(at::Tensor& output, at::Tensor& input,
                               const ::c10d::AllgatherOptions& options) {
  const Extent from = proxy::extent_of(input);
  return run(between("all_gather_into_tensor", "AllGather", from, from, proxy::extent_of(output)),
             [&] { return inner_->_allgather_base(output, input, options); });
}

WorkRef Proxy::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                   const ::c10d::AllgatherOptions& options) {
  const Extent from = proxy::extent_of(inputs);
  return run(between("all_gather_coalesced", "AllGather", from, from, extent_of(outputs)),
             [&] { return inner_->allgather_coalesced(outputs, inputs, options); });
}

WorkRef Proxy::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                               const ::c10d::AllgatherOptions& options) {
  const Extent from = proxy::extent_of(inputs);
  return run(between("all_gather_into_tensor_coalesced", "AllGather", from, from,
                     proxy::extent_of(outputs)),
             [&] { return inner_->allgather_into_tensor_coalesced(outputs, inputs, options); });
}

WorkRef Proxy::gather(TensorLists& outputs, Tensors& inputs, const ::c10d::GatherOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  const Operation operation = root == member_.rank
                                  ? receiving("gather", extent_of(outputs), kAllPeers)
                                  : sending("gather", proxy::extent_of(inputs), root);
  return run(plain(operation), [&] { return inner_->gather(outputs, inputs, options); });
}

WorkRef Proxy::scatter(Tensors& outputs, TensorLists& inputs,
                       const ::c10d::ScatterOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  const Operation operation = root == member_.rank
                                  ? sending("scatter", extent_of(inputs), kAllPeers)
                                  : receiving("scatter", proxy::extent_of(outputs), root);
  return run(plain(operation), [&] { return inner_->scatter(outputs, inputs, options); });
}

WorkRef Proxy::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                              const ::c10d::ReduceScatterOptions& options) {
  const Extent to = proxy::extent_of(outputs);
  const Operation operation = reducing(
      between("reduce_scatter", "ReduceScatter", to, extent_of(inputs), to), options.reduceOp);
  return run(operation, [&] { return inner_->reduce_scatter(outputs, inputs, options); });
}

WorkRef Proxy::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                    const ::c10d::ReduceScatterOptions& options) {
  const Extent to = proxy::extent_of(output);
  const Operation operation =
      reducing(between("reduce_scatter_tensor", "ReduceScatter", to, proxy::extent_of(input), to),
               options.reduceOp);
  return run(operation, [&] { return inner_->_reduce_scatter_base(output, input, options); });
}

WorkRef Proxy::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                               const ::c10d::ReduceScatterOptions& options) {
  const Extent to = proxy::extent_of(outputs);
  const Operation operation = reducing(
      between("reduce_scatter_tensor_coalesced", "ReduceScatter", to, proxy::extent_of(inputs), to),
      options.reduceOp);
  return run(operation,
             [&] { return inner_->reduce_scatter_tensor_coalesced(outputs, inputs, options); });
}

WorkRef Proxy::alltoall_base(at::Tensor& output, at::Tensor& input, Sizes& output_sizes,
                             Sizes& input_sizes, const ::c10d::AllToAllOptions& options) {
  const Extent from = proxy::extent_of(input);
  return run(
      plain(between("all_to_all_single", "AlltoAll", share(from, member_.size), from,
                    proxy::extent_of(output))),
      [&] { return inner_->alltoall_base(output, input, output_sizes, input_sizes, options); });
}

WorkRef Proxy::alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options) {
  const Extent from = proxy::extent_of(inputs);
  return run(plain(between("all_to_all", "AlltoAll", share(from, member_.size), from,
                           proxy::extent_of(outputs))),
             [&] { return inner_->alltoall(outputs, inputs, options); });
}

WorkRef Proxy::send(Tensors& tensors, int peer, int tag) {
  return run(sending("send", proxy::extent_of(tensors), peer),
             [&] { return inner_->send(tensors, peer, tag); });
}

WorkRef Proxy::recv(Tensors& tensors, int peer, int tag) {
  return run(receiving("recv", proxy::extent_of(tensors), peer),
             [&] { return inner_->recv(tensors, peer, tag); });
}

WorkRef Proxy::recvAnysource(Tensors& tensors, int tag) {
  return run(receiving("recv from any source", proxy::extent_of(tensors), kAllPeers),
             [&] { return inner_->recvAnysource(tensors, tag); });
}

// In torch's NCCL backend an all-reduce of one element.
WorkRef Proxy::barrier(const ::c10d::BarrierOptions& options) {
  Operation operation = in_place("barrier", "AllReduce",
                                 {.data = &barrier_element_,
                                  .count = 1,
                                  .bytes = sizeof barrier_element_,
                                  .type = ncclFloat32});
  operation.redop = ncclSum;
  return run(operation, [&] { return inner_->barrier(options); });
}

#if SABOT_TORCH_AT_LEAST(2, 14)
// Announced under their old names. The base class would forward them too, but behind a guard that a
// wrapped backend of the same kind would run into.
WorkRef Proxy::all_gather_single(at::Tensor& output, at::Tensor& input,
                                 const ::c10d::AllgatherOptions& options) {
  return _allgather_base(output, input, options);
}

WorkRef Proxy::all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                           const ::c10d::AllgatherOptions& options) {
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkRef Proxy::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                     const ::c10d::ReduceScatterOptions& options) {
  return _reduce_scatter_base(output, input, options);
}

WorkRef Proxy::reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                               const ::c10d::ReduceScatterOptions& options) {
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkRef Proxy::all_to_all_single(at::Tensor& output, at::Tensor& input, Sizes& output_sizes,
                                 Sizes& input_sizes, const ::c10d::AllToAllOptions& options) {
  return alltoall_base(output, input, output_sizes, input_sizes, options);
}

WorkRef Proxy::gather_single(at::Tensor& output, at::Tensor& input,
                             const ::c10d::GatherOptions& options) {
  return gather_into_tensor(output, input, options);
}

WorkRef Proxy::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                  const ::c10d::GatherOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  const Operation operation = root == member_.rank
                                  ? receiving("gather", proxy::extent_of(output), kAllPeers)
                                  : sending("gather", proxy::extent_of(input), root);
  return run(plain(operation), [&] { return inner_->gather_into_tensor(output, input, options); });
}
#endif

}  // namespace sabot::pytorch::proxy
