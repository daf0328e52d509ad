// From torch's tensors and reductions to NCCL's, and what is refused on the way.
//
// A tensor must be dense, contiguous and on the CPU; nothing is copied to make it so, as with NCCL.
// Errors are ValueError or TypeError and name the operation, the tensor and what was expected.
#pragma once

#include <ATen/core/Tensor.h>
#include <nccl.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace sabot::pytorch {

// One buffer as NCCL sees it.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
};

// For an operation that computes: the type must be one that NCCL has.
Buffer operand(const at::Tensor& tensor, const char* operation);
// For an operation that only moves: any type, as bytes where NCCL does not have it.
Buffer payload(const at::Tensor& tensor, const char* operation);

// NCCL's type, or -1.
int nccl_type(at::ScalarType type);
// NCCL's built-in reduction as torch asks for it, or -1.
int nccl_redop(const ::c10d::ReduceOp& op, bool is_bool);

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation);
// All of one type and of the same number of elements; each is checked as a payload.
void check_alike(const std::vector<at::Tensor>& tensors, const char* operation);
void check_same_type(const at::Tensor& one, const at::Tensor& other, const char* operation);
bool is_even(const std::vector<at::Tensor>& tensors);

// A reduction for one call: built in, or created for a premultiplied sum and destroyed afterwards.
class Reduction {
 public:
  Reduction(const ::c10d::ReduceOp& op, const at::Tensor& tensor, ncclComm_t comm,
            const char* operation);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  ncclRedOp_t op() const { return op_; }

 private:
  ncclRedOp_t op_ = ncclSum;
  ncclComm_t comm_;
  bool is_created_ = false;
};

}  // namespace sabot::pytorch
