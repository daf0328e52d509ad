// Types, reductions and refusals.
#include "pytorch/tensors.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <string>

#include "pytorch/errors.hpp"
#include "pytorch/library.hpp"
#include "pytorch/version.hpp"

namespace sabot::pytorch {
namespace {

void check_tensor(const at::Tensor& tensor, const char* operation) {
  if (!tensor.defined()) refuse(operation, "a tensor is undefined");
  if (tensor.layout() != at::kStrided) {
    refuse(operation, "Tensors must be CPU and dense; this one is " +
                          std::string(tensor.is_sparse() ? "sparse" : "not strided") +
                          ", pass tensor.to_dense()");
  }
  if (!tensor.device().is_cpu()) {
    refuse(operation, "Tensors must be CPU and dense; this one is on " + tensor.device().str() +
                          ". Use a backend for each device, for example \"cpu:sabot,cuda:nccl\"");
  }
  if (!tensor.is_contiguous(tensor.suggest_memory_format())) {
    refuse(operation, "Tensors must be contiguous; pass tensor.contiguous()");
  }
}

const char* name_of(::c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case ::c10d::ReduceOp::BAND: return "BAND";
    case ::c10d::ReduceOp::BOR: return "BOR";
    case ::c10d::ReduceOp::BXOR: return "BXOR";
    default: return "an unknown operation";
  }
}

ncclRedOp_t built_in(const ::c10d::ReduceOp& op, bool is_bool, const char* operation) {
  if (is_bool && op.op_ == ::c10d::ReduceOp::AVG) {
    C10_THROW_ERROR(TypeError, "Cannot use ReduceOp.AVG with boolean inputs");
  }
  const int known = nccl_redop(op, is_bool);
  if (known < 0) {
    refuse(operation, std::string("Cannot use ReduceOp.") + name_of(op.op_) +
                          " with NCCL; gloo has it for integers");
  }
  return static_cast<ncclRedOp_t>(known);
}

// The scalar of a premultiplied sum in the type of the tensor, as one element.
at::Tensor scalar_of(const ::c10d::ReduceOp& op, const at::Tensor& tensor, const char* operation) {
  const auto* supplement =
      dynamic_cast<const ::c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) refuse(operation, "this PREMUL_SUM has no factor");
  if (supplement->tensor_factor.defined()) {
    return supplement->tensor_factor.to(tensor.options()).contiguous();
  }
  return at::full({1}, supplement->double_factor, tensor.options());
}

}  // namespace

int nccl_type(at::ScalarType type) {
  switch (type) {
    case at::kChar: return ncclInt8;
    case at::kByte:
    case at::kBool: return ncclUint8;
    case at::kInt: return ncclInt32;
    case at::kLong: return ncclInt64;
    case at::kHalf: return ncclFloat16;
    case at::kFloat: return ncclFloat32;
    case at::kDouble: return ncclFloat64;
    case at::kBFloat16: return ncclBfloat16;
    case at::kFloat8_e4m3fn: return ncclFloat8e4m3;
    case at::kFloat8_e5m2: return ncclFloat8e5m2;
#if SABOT_TORCH_AT_LEAST(2, 3)
    case at::kUInt32: return ncclUint32;
    case at::kUInt64: return ncclUint64;
#endif
    default: return -1;
  }
}

int nccl_redop(const ::c10d::ReduceOp& op, bool is_bool) {
  switch (op.op_) {
    // On 0 and 1 the largest is "or", and nothing wraps around.
    case ::c10d::ReduceOp::SUM: return is_bool ? ncclMax : ncclSum;
    case ::c10d::ReduceOp::PRODUCT: return is_bool ? ncclMin : ncclProd;
    case ::c10d::ReduceOp::MIN: return ncclMin;
    case ::c10d::ReduceOp::MAX: return ncclMax;
    case ::c10d::ReduceOp::AVG: return ncclAvg;
    default: return -1;
  }
}

Buffer operand(const at::Tensor& tensor, const char* operation) {
  check_tensor(tensor, operation);
  const int type = nccl_type(tensor.scalar_type());
  if (type < 0) {
    C10_THROW_ERROR(TypeError, std::string("sabot: ") + operation +
                                   ": Input tensor data type is not supported for NCCL process "
                                   "group: " +
                                   c10::toString(tensor.scalar_type()));
  }
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
          static_cast<ncclDataType_t>(type)};
}

Buffer payload(const at::Tensor& tensor, const char* operation) {
  check_tensor(tensor, operation);
  const int type = nccl_type(tensor.scalar_type());
  if (type >= 0) {
    return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
            static_cast<ncclDataType_t>(type)};
  }
  return {tensor.data_ptr(), tensor.nbytes(), ncclUint8};
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation) {
  if (tensors.size() != 1) {
    refuse(operation, "expected one tensor, got " + std::to_string(tensors.size()));
  }
  return tensors.front();
}

void check_alike(const std::vector<at::Tensor>& tensors, const char* operation) {
  if (tensors.empty()) refuse(operation, "requires non-empty tensor list");
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, operation);
    check_same_type(tensors.front(), tensor, operation);
  }
}

void check_same_type(const at::Tensor& one, const at::Tensor& other, const char* operation) {
  if (one.scalar_type() == other.scalar_type()) return;
  C10_THROW_ERROR(TypeError, std::string("sabot: ") + operation +
                                 ": Tensors must have identical type; got " +
                                 c10::toString(one.scalar_type()) + " and " +
                                 c10::toString(other.scalar_type()));
}

bool is_even(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != tensors.front().numel()) return false;
  }
  return true;
}

Reduction::Reduction(const ::c10d::ReduceOp& op, const at::Tensor& tensor, ncclComm_t comm,
                     const char* operation)
    : comm_(comm) {
  if (op.op_ != ::c10d::ReduceOp::PREMUL_SUM) {
    op_ = built_in(op, tensor.scalar_type() == at::kBool, operation);
    return;
  }
  const Buffer buffer = operand(tensor, operation);
  const at::Tensor scalar = scalar_of(op, tensor, operation);
  check(library().RedOpCreatePreMulSum(&op_, scalar.data_ptr(), buffer.type,
                                       ncclScalarHostImmediate, comm),
        comm);
  is_created_ = true;
}

Reduction::~Reduction() {
  if (is_created_) library().RedOpDestroy(op_, comm_);
}

}  // namespace sabot::pytorch
