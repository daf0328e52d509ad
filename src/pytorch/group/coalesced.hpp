// Operations between startCoalescing and endCoalescing: collected, then launched as one NCCL group.
#pragma once

#include <functional>
#include <vector>

#include "pytorch/group/launch.hpp"

namespace sabot::pytorch {

class Coalesced {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  // A handle that is complete at once: only what launch() returns tells when the work is done.
  WorkRef add(const Request& request, Call call, After after);
  WorkRef add_message(int rank, std::function<WorkRef()> post);
  // Launches all of it. Throws what NCCL's group returns.
  WorkRef launch_all(Group& group);

 private:
  std::vector<Call> calls_;
  std::vector<After> afters_;
  std::vector<std::function<WorkRef()>> messages_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
  std::chrono::milliseconds timeout_{0};
};

}  // namespace sabot::pytorch
