// Collectives of single tensors: one NCCL call each, several as one group.
#include "pytorch/requests.hpp"

namespace sabot::pytorch {

WorkRef SabotBackend::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  const Buffer buffer = payload(tensor, "broadcast");
  const auto root = static_cast<int>(options.rootRank);
  return start(request(::c10d::OpType::BROADCAST, "sabot:broadcast", options, tensor, tensor),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return library().Bcast(buffer.data, buffer.count, buffer.type, root, comm, stream);
               });
}

WorkRef SabotBackend::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  const Buffer buffer = operand(tensor, "all_reduce");
  const auto reduction = reduction_of(options.reduceOp, tensor, *group_, "all_reduce");
  return start(request(::c10d::OpType::ALLREDUCE, "sabot:all_reduce", options, tensor, tensor),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return library().AllReduce(buffer.data, buffer.data, buffer.count, buffer.type,
                                            reduction.op(), comm, stream);
               });
}

WorkRef SabotBackend::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions&) {
  operand(only(tensors, "all_reduce"), "all_reduce");  // says why
  refuse("all_reduce", "this is the sparse variant; pass a dense tensor");
}

WorkRef SabotBackend::allreduce_coalesced(Tensors& tensors,
                                          const ::c10d::AllreduceCoalescedOptions& options) {
  check_alike(tensors, "all_reduce_coalesced");
  std::vector<Buffer> buffers;
  for (const at::Tensor& tensor : tensors) {
    buffers.push_back(operand(tensor, "all_reduce_coalesced"));
  }
  const auto reduction =
      reduction_of(options.reduceOp, tensors.front(), *group_, "all_reduce_coalesced");
  return start(
      request(::c10d::OpType::ALLREDUCE_COALESCED, "sabot:all_reduce", options, tensors, tensors),
      [=](ncclComm_t comm, cudaStream_t stream) {
        return each(buffers.size(), [&](std::size_t i) {
          return library().AllReduce(buffers[i].data, buffers[i].data, buffers[i].count,
                                     buffers[i].type, reduction.op(), comm, stream);
        });
      });
}

WorkRef SabotBackend::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  const Buffer buffer = operand(tensor, "reduce");
  const auto reduction = reduction_of(options.reduceOp, tensor, *group_, "reduce");
  const auto root = static_cast<int>(options.rootRank);
  return start(request(::c10d::OpType::REDUCE, "sabot:reduce", options, tensor, tensor),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return library().Reduce(buffer.data, buffer.data, buffer.count, buffer.type,
                                         reduction.op(), root, comm, stream);
               });
}

WorkRef SabotBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                      const ::c10d::AllgatherOptions& options) {
  const Buffer from = payload(input, "all_gather_into_tensor");
  const Buffer to = payload(output, "all_gather_into_tensor");
  check_same_type(input, output, "all_gather_into_tensor");
  check_ratio(output, input, group_->member().size, "all_gather_into_tensor", "output", "input");
  return start(
      request(::c10d::OpType::_ALLGATHER_BASE, "sabot:_all_gather_base", options, input, output),
      [=](ncclComm_t comm, cudaStream_t stream) {
        return library().AllGather(from.data, to.data, from.count, from.type, comm, stream);
      });
}

WorkRef SabotBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const ::c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  check_as_many(outputs.size(), inputs.size(), kName);
  std::vector<Buffer> from;
  std::vector<Buffer> to;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(payload(inputs[i], kName));
    to.push_back(payload(outputs[i], kName));
    check_same_type(inputs[i], outputs[i], kName);
    check_ratio(outputs[i], inputs[i], group_->member().size, kName, "output", "input");
  }
  return start(request(::c10d::OpType::COALESCED, "sabot:all_gather_into_tensor_coalesced", options,
                       inputs, outputs),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return each(from.size(), [&](std::size_t i) {
                   return library().AllGather(from[i].data, to[i].data, from[i].count, from[i].type,
                                              comm, stream);
                 });
               });
}

WorkRef SabotBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const ::c10d::ReduceScatterOptions& options) {
  const Buffer from = operand(input, "reduce_scatter_tensor");
  const Buffer to = operand(output, "reduce_scatter_tensor");
  check_same_type(input, output, "reduce_scatter_tensor");
  check_ratio(input, output, group_->member().size, "reduce_scatter_tensor", "input", "output");
  const auto reduction = reduction_of(options.reduceOp, input, *group_, "reduce_scatter_tensor");
  return start(request(::c10d::OpType::_REDUCE_SCATTER_BASE, "sabot:_reduce_scatter_base", options,
                       input, output),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return library().ReduceScatter(from.data, to.data, to.count, to.type,
                                                reduction.op(), comm, stream);
               });
}

WorkRef SabotBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const ::c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_as_many(outputs.size(), inputs.size(), kName);
  std::vector<Buffer> from;
  std::vector<Buffer> to;
  std::vector<SharedReduction> reductions;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(operand(inputs[i], kName));
    to.push_back(operand(outputs[i], kName));
    check_same_type(inputs[i], outputs[i], kName);
    check_ratio(inputs[i], outputs[i], group_->member().size, kName, "input", "output");
    reductions.push_back(reduction_of(options.reduceOp, inputs[i], *group_, kName));
  }
  return start(request(::c10d::OpType::COALESCED, "sabot:reduce_scatter_tensor_coalesced", options,
                       inputs, outputs),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return each(from.size(), [&](std::size_t i) {
                   return library().ReduceScatter(from[i].data, to[i].data, to[i].count, to[i].type,
                                                  reductions[i].op(), comm, stream);
                 });
               });
}

// As torch's own backend: an all-reduce of one element.
WorkRef SabotBackend::barrier(const ::c10d::BarrierOptions& options) {
  const Buffer buffer = operand(barrier_, "barrier");
  return start(request(::c10d::OpType::BARRIER, "sabot:barrier", options, barrier_, barrier_),
               [=](ncclComm_t comm, cudaStream_t stream) {
                 return library().AllReduce(buffer.data, buffer.data, buffer.count, buffer.type,
                                            ncclSum, comm, stream);
               });
}

}  // namespace sabot::pytorch
