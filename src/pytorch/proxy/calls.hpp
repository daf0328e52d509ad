// What NCCL would get for an operation of torch: sizes and types from tensors, codes from
// exceptions.
//
// Nothing here refuses or throws: the wrapped backend says what is wrong with its arguments. What
// cannot be told is announced as unknown.
#pragma once

#include <ATen/core/Tensor.h>
#include <nccl.h>

#include <cstdint>
#include <exception>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "pytorch/announced.hpp"

namespace sabot::pytorch::proxy {

// One tensor, or several one after the other as NCCL would have them in one buffer.
struct Extent {
  void* data = nullptr;  // of the first
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  int type = -1;  // ncclDataType_t; -1: not one of NCCL's, or not one for all
  bool is_bool = false;
  bool is_plain = false;  // memory of the CPU in one piece
};

Extent extent_of(const at::Tensor& tensor);
Extent extent_of(const std::vector<at::Tensor>& tensors);

// What the log shows for an error of the wrapped backend: ncclInvalidArgument for what torch
// raises as ValueError, TypeError, IndexError or NotImplementedError, ncclRemoteError for its
// distributed errors, else ncclSystemError.
ncclResult_t code_of(const std::exception& failure);

// What execution() returns. Where it throws, the call is left with the code of that.
template <typename Execution>
auto executed(Announced& call, Execution execution) {
  try {
    return execution();
  } catch (const std::exception& failure) {
    call.fail(code_of(failure));
    throw;
  }
}

}  // namespace sabot::pytorch::proxy
