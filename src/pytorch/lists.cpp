// Collectives of lists of tensors, and all-to-all: staged where NCCL wants one buffer, else as
// sends and receives of one group, straight from and into the tensors.
#include "pytorch/requests.hpp"

namespace sabot::pytorch {
namespace {

using Tensors = SabotBackend::Tensors;
using TensorLists = SabotBackend::TensorLists;

void check_list(const Tensors& list, int ranks, const char* operation, const char* name) {
  if (list.size() != static_cast<std::size_t>(ranks)) {
    refuse(operation, std::string(name) + " has " + std::to_string(list.size()) +
                          " tensors, expected one for each of the " + std::to_string(ranks) +
                          " ranks");
  }
  check_alike(list, operation);
}

const Tensors& only_list(const TensorLists& lists, const char* operation) {
  if (lists.size() != 1) {
    refuse(operation, "expected one list of tensors, got " + std::to_string(lists.size()));
  }
  return lists.front();
}

// One tensor with a row like `example` for each rank, its memory in the order of the example's.
at::Tensor staging_like(const at::Tensor& example, int ranks) {
  std::vector<std::int64_t> sizes{ranks};
  std::vector<std::int64_t> strides{example.numel()};
  sizes.insert(sizes.end(), example.sizes().begin(), example.sizes().end());
  strides.insert(strides.end(), example.strides().begin(), example.strides().end());
  return at::empty_strided(sizes, strides, example.options());
}

std::vector<Buffer> payloads(const Tensors& tensors, const char* operation) {
  std::vector<Buffer> buffers;
  buffers.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) buffers.push_back(payload(tensor, operation));
  return buffers;
}

// All that a rank sends and receives, as one group. An empty buffer is left out on both sides.
ncclResult_t exchange(const std::vector<Buffer>& out, const std::vector<Buffer>& in,
                      ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    for (std::size_t peer = 0; peer < std::max(out.size(), in.size()); ++peer) {
      ncclResult_t code = ncclSuccess;
      const int rank = static_cast<int>(peer);
      if (peer < out.size() && out[peer].count > 0) {
        code = library().Send(out[peer].data, out[peer].count, out[peer].type, rank, comm, stream);
      }
      if (is_success(code) && peer < in.size() && in[peer].count > 0) {
        code = library().Recv(in[peer].data, in[peer].count, in[peer].type, rank, comm, stream);
      }
      if (!is_success(code)) return code;
    }
    return ncclSuccess;
  });
}

// The parts of a tensor along its first dimension; even parts if sizes is empty.
std::vector<Buffer> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes,
                             int ranks, const char* name) {
  constexpr const char* kName = "all_to_all_single";
  const Buffer whole = payload(tensor, kName);
  const std::int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
  std::vector<std::int64_t> split = sizes;
  if (split.empty()) {
    if (rows % ranks != 0) {
      refuse(kName, std::string("the first dimension of ") + name + " is " + std::to_string(rows) +
                        ", not divisible by " + std::to_string(ranks) + " ranks");
    }
    split.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  std::int64_t sum = 0;
  for (const std::int64_t part : split) sum += part;
  if (split.size() != static_cast<std::size_t>(ranks) || sum != rows) {
    refuse(kName, std::string("Split sizes doesn't match total dim 0 size: ") + name + " has " +
                      std::to_string(rows) + " rows, " + std::to_string(split.size()) +
                      " split sizes for " + std::to_string(ranks) + " ranks sum up to " +
                      std::to_string(sum));
  }
  const std::size_t row = rows == 0 ? 0 : whole.count / static_cast<std::size_t>(rows);
  const std::size_t row_bytes = rows == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(rows);
  std::vector<Buffer> parts;
  auto* data = static_cast<char*>(whole.data);
  for (const std::int64_t part : split) {
    parts.push_back({data, row * static_cast<std::size_t>(part), whole.type});
    data += row_bytes * static_cast<std::size_t>(part);
  }
  return parts;
}

}  // namespace

void check_as_many(std::size_t outputs, std::size_t inputs, const char* operation) {
  if (outputs == inputs && inputs > 0) return;
  refuse(operation, "expected as many outputs as inputs, got " + std::to_string(outputs) + " and " +
                        std::to_string(inputs));
}

void check_ratio(const at::Tensor& large, const at::Tensor& small, int ranks, const char* operation,
                 const char* large_name, const char* small_name) {
  if (large.numel() == small.numel() * ranks) [[likely]]
    return;
  refuse(operation, std::string(large_name) + " tensor size must be equal to world_size times " +
                        small_name + " tensor size; got " + std::to_string(large.numel()) +
                        " elements, expected " + std::to_string(ranks) + " x " +
                        std::to_string(small.numel()));
}

WorkRef SabotBackend::allgather(TensorLists& output_lists, Tensors& inputs,
                                const ::c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const at::Tensor& input = only(inputs, kName);
  const Tensors& outputs = only_list(output_lists, kName);
  check_list(outputs, group_->member().size, kName, "tensor_list");
  check_same_type(input, outputs.front(), kName);
  const Buffer from = payload(input, kName);
  const Request wanted =
      request(::c10d::OpType::ALLGATHER, "sabot:all_gather", options, input, outputs);
  if (!is_even(outputs) || outputs.front().numel() != input.numel()) {
    const auto rank = static_cast<std::size_t>(group_->member().rank);
    if (outputs[rank].numel() != input.numel()) {
      refuse(kName, "tensor_list[" + std::to_string(rank) + "] has " +
                        std::to_string(outputs[rank].numel()) + " elements, the tensor has " +
                        std::to_string(input.numel()));
    }
    return start(
        wanted, [from, rank, to = payloads(outputs, kName)](ncclComm_t comm, cudaStream_t stream) {
          return each(to.size(), [&](std::size_t i) {
            return library().Broadcast(i == rank ? from.data : to[i].data, to[i].data, to[i].count,
                                       to[i].type, static_cast<int>(i), comm, stream);
          });
        });
  }
  const at::Tensor staging = staging_like(input, group_->member().size);
  void* into = staging.data_ptr();
  return start(
      wanted,
      [=](ncclComm_t comm, cudaStream_t stream) {
        return library().AllGather(from.data, into, from.count, from.type, comm, stream);
      },
      [staging, outputs] {
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          outputs[i].copy_(staging[static_cast<std::int64_t>(i)].view_as(outputs[i]));
        }
      });
}

// An all-gather for each input; outputs[rank][i] is what rank has in inputs[i].
WorkRef SabotBackend::allgather_coalesced(TensorLists& output_lists, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& options) {
  check_as_many(output_lists.size(), static_cast<std::size_t>(group_->member().size),
                "all_gather_coalesced");
  std::vector<WorkRef> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorLists outputs(1);
    for (const Tensors& of_rank : output_lists) {
      check_as_many(of_rank.size(), inputs.size(), "all_gather_coalesced");
      outputs.front().push_back(of_rank[i]);
    }
    Tensors input{inputs[i]};
    parts.push_back(allgather(outputs, input, options));
  }
  return c10::make_intrusive<JointWork>(group_->member().rank, std::move(parts));
}

WorkRef SabotBackend::gather(TensorLists& output_lists, Tensors& inputs,
                             const ::c10d::GatherOptions& options) {
  constexpr const char* kName = "gather";
  const at::Tensor& input = only(inputs, kName);
  const auto root = static_cast<std::size_t>(options.rootRank);
  const auto rank = static_cast<std::size_t>(group_->member().rank);
  std::vector<Buffer> out(root + 1);
  Tensors outputs;
  if (rank == root) {
    outputs = only_list(output_lists, kName);
    check_list(outputs, group_->member().size, kName, "gather_list");
    check_same_type(input, outputs.front(), kName);
  } else if (!output_lists.empty()) {
    refuse(kName, "requires empty output on non-root");
  }
  std::vector<Buffer> in = payloads(outputs, kName);
  const Buffer own = payload(input, kName);
  if (rank == root) {
    in[rank].count = 0;  // copied below
  } else {
    out[root] = own;
  }
  return start(
      plain(request(::c10d::OpType::GATHER, "sabot:gather", options, input, outputs)),
      [=](ncclComm_t comm, cudaStream_t stream) { return exchange(out, in, comm, stream); },
      [=] {
        if (rank == root) outputs[rank].copy_(input.view_as(outputs[rank]));
      });
}

WorkRef SabotBackend::scatter(Tensors& outputs, TensorLists& input_lists,
                              const ::c10d::ScatterOptions& options) {
  constexpr const char* kName = "scatter";
  const at::Tensor& output = only(outputs, kName);
  const auto root = static_cast<std::size_t>(options.rootRank);
  const auto rank = static_cast<std::size_t>(group_->member().rank);
  std::vector<Buffer> in(root + 1);
  Tensors inputs;
  if (rank == root) {
    inputs = only_list(input_lists, kName);
    check_list(inputs, group_->member().size, kName, "scatter_list");
    check_same_type(output, inputs.front(), kName);
  } else if (!input_lists.empty()) {
    refuse(kName, "requires empty input on non-root");
  }
  std::vector<Buffer> out = payloads(inputs, kName);
  const Buffer own = payload(output, kName);
  if (rank == root) {
    out[rank].count = 0;
  } else {
    in[root] = own;
  }
  return start(
      plain(request(::c10d::OpType::SCATTER, "sabot:scatter", options, inputs, output)),
      [=](ncclComm_t comm, cudaStream_t stream) { return exchange(out, in, comm, stream); },
      [=] {
        if (rank == root) output.copy_(inputs[rank].view_as(output));
      });
}

WorkRef SabotBackend::reduce_scatter(Tensors& outputs, TensorLists& input_lists,
                                     const ::c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor& output = only(outputs, kName);
  const Tensors& inputs = only_list(input_lists, kName);
  check_list(inputs, group_->member().size, kName, "input_list");
  check_same_type(output, inputs.front(), kName);
  const Buffer to = operand(output, kName);
  const auto rank = static_cast<std::size_t>(group_->member().rank);
  if (inputs[rank].numel() != output.numel()) {
    refuse(kName, "input_list[" + std::to_string(rank) + "] has " +
                      std::to_string(inputs[rank].numel()) + " elements, the output has " +
                      std::to_string(output.numel()));
  }
  const auto reduction = reduction_of(options.reduceOp, output, *group_, kName);
  const Request wanted =
      request(::c10d::OpType::REDUCE_SCATTER, "sabot:reduce_scatter", options, inputs, output);
  if (!is_even(inputs)) {
    return start(wanted, [=, from = payloads(inputs, kName)](ncclComm_t comm, cudaStream_t stream) {
      return each(from.size(), [&](std::size_t i) {
        return library().Reduce(from[i].data, i == rank ? to.data : from[i].data, from[i].count,
                                to.type, reduction.op(), static_cast<int>(i), comm, stream);
      });
    });
  }
  const at::Tensor staging = staging_like(output, group_->member().size);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    staging[static_cast<std::int64_t>(i)].copy_(inputs[i].view_as(output));
  }
  const void* from = staging.data_ptr();
  return start(
      wanted,
      [=](ncclComm_t comm, cudaStream_t stream) {
        return library().ReduceScatter(from, to.data, to.count, to.type, reduction.op(), comm,
                                       stream);
      },
      [staging] {});
}

WorkRef SabotBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const ::c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all_single";
  const int ranks = group_->member().size;
  check_same_type(input, output, kName);
  const Request wanted =
      plain(request(::c10d::OpType::ALLTOALL_BASE, "sabot:all_to_all", options, input, output));
  std::vector<Buffer> out = parts_of(input, input_sizes, ranks, "input");
  std::vector<Buffer> in = parts_of(output, output_sizes, ranks, "output");
  if (!output_sizes.empty() || !input_sizes.empty()) {
    return start(wanted, [=](ncclComm_t comm, cudaStream_t stream) {
      return exchange(out, in, comm, stream);
    });
  }
  if (input.numel() != output.numel()) {
    refuse(kName, "output has " + std::to_string(output.numel()) + " elements, input " +
                      std::to_string(input.numel()) + "; without split sizes they must agree");
  }
  return start(wanted,
               [part = out.front(), to = in.front().data](ncclComm_t comm, cudaStream_t stream) {
                 return library().AlltoAll(part.data, to, part.count, part.type, comm, stream);
               });
}

WorkRef SabotBackend::alltoall(Tensors& outputs, Tensors& inputs,
                               const ::c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  const int ranks = group_->member().size;
  check_list(outputs, ranks, kName, "output_tensor_list");
  check_list(inputs, ranks, kName, "input_tensor_list");
  check_same_type(inputs.front(), outputs.front(), kName);
  return start(
      plain(request(::c10d::OpType::ALLTOALL, "sabot:all_to_all", options, inputs, outputs)),
      [out = payloads(inputs, kName), in = payloads(outputs, kName)](
          ncclComm_t comm, cudaStream_t stream) { return exchange(out, in, comm, stream); });
}

}  // namespace sabot::pytorch
