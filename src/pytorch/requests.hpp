// The small parts that the backend's methods share: requests from options, reductions, checks of
// sizes, loops as one NCCL group. Each method then says only which buffers go into which call; how
// it runs is launch.hpp's affair.
#pragma once

#include <memory>
#include <string>

#include "pytorch/backend.hpp"
#include "pytorch/tensors.hpp"

namespace sabot::pytorch {

// Before torch 2.8 options do not tell whether the caller waits; then everything runs behind it.
template <typename Options>
bool is_async(const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

template <typename Options>
Request request(::c10d::OpType type, const char* title, const Options& options,
                c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs,
                Place place = here()) {
  return {type,   title,   options.timeout,      is_async(options),
          inputs, outputs, Style::kBackendError, place};
}

// For operations whose errors torch throws from its helpers.
inline Request plain(Request wanted) {
  wanted.style = Style::kPlain;
  return wanted;
}

// A reduction that lives as long as some copy of it: queued operations keep theirs.
class SharedReduction {
 public:
  explicit SharedReduction(ncclRedOp_t op) : op_(op) {}
  explicit SharedReduction(std::shared_ptr<Reduction> made)
      : op_(made->op()), made_(std::move(made)) {}
  ncclRedOp_t op() const { return op_; }

 private:
  ncclRedOp_t op_;
  std::shared_ptr<Reduction> made_;
};

inline SharedReduction reduction_of(const ::c10d::ReduceOp& op, const at::Tensor& tensor,
                                    const Group& group, const char* operation) {
  if (op.op_ == ::c10d::ReduceOp::SUM && tensor.scalar_type() != at::kBool) [[likely]]
    return SharedReduction(ncclSum);
  return SharedReduction(std::make_shared<Reduction>(op, tensor, group.comm(), operation));
}

// call(0) … call(count - 1) as one NCCL group; ends at the first that fails.
template <typename Call>
ncclResult_t each(std::size_t count, Call call) {
  return grouped([&] {
    for (std::size_t i = 0; i < count; ++i) {
      const ncclResult_t code = call(i);
      if (!is_success(code)) return code;
    }
    return ncclSuccess;
  });
}

void check_as_many(std::size_t outputs, std::size_t inputs, const char* operation);
// `large` must have `ranks` times the elements of `small`.
void check_ratio(const at::Tensor& large, const at::Tensor& small, int ranks, const char* operation,
                 const char* large_name, const char* small_name);

}  // namespace sabot::pytorch
