// Tensors, reductions and exceptions in NCCL's terms.
#include "pytorch/proxy/calls.hpp"

#include <c10/util/Exception.h>

#include <stdexcept>

#include "pytorch/tensors.hpp"

namespace sabot::pytorch::proxy {
namespace {

// Sparse tensors reduce their values; what has no memory has no address.
void* data_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? const_cast<void*>(tensor.storage().data()) : nullptr;
}

template <typename... Kinds>
bool is_any(const std::exception& failure) {
  return (... || (dynamic_cast<const Kinds*>(&failure) != nullptr));
}

}  // namespace

Extent extent_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.layout() == at::kSparse) return extent_of(tensor._values());
  Extent extent;
  extent.count = static_cast<std::uint64_t>(tensor.numel());
  extent.bytes = extent.count * tensor.element_size();
  extent.type = nccl_type(tensor.scalar_type());
  extent.is_bool = tensor.scalar_type() == at::kBool;
  extent.is_plain =
      tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
  if (auto* data = static_cast<char*>(data_of(tensor)); data != nullptr) {
    extent.data = data + static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size();
  }
  return extent;
}

Extent extent_of(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return {};
  Extent sum = extent_of(tensors.front());
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Extent more = extent_of(tensors[i]);
    sum.count += more.count;
    sum.bytes += more.bytes;
    if (more.type != sum.type) sum.type = -1;
    sum.is_plain = false;
  }
  return sum;
}

ncclResult_t code_of(const std::exception& failure) {
  if (is_any<c10::DistError>(failure)) return ncclRemoteError;
  if (is_any<c10::ValueError, c10::TypeError, c10::IndexError, c10::NotImplementedError,
             std::invalid_argument>(failure)) {
    return ncclInvalidArgument;
  }
  return ncclSystemError;
}

}  // namespace sabot::pytorch::proxy
