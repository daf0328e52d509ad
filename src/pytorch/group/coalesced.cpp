// The launch of what was collected.
#include "pytorch/group/coalesced.hpp"

#include <algorithm>

namespace sabot::pytorch {
namespace {

WorkRef placeholder(int rank, ::c10d::OpType type) {
  auto work = c10::make_intrusive<SabotWork>(rank, type, nullptr, 0, c10::ArrayRef<at::Tensor>());
  work->end();
  return work;
}

}  // namespace

WorkRef Coalesced::add(const Request& request, Call call, After after) {
  calls_.push_back(std::move(call));
  if (after) afters_.push_back(std::move(after));
  inputs_.insert(inputs_.end(), request.inputs.begin(), request.inputs.end());
  outputs_.insert(outputs_.end(), request.outputs.begin(), request.outputs.end());
  timeout_ = std::max(timeout_, request.timeout);
  return placeholder(-1, request.type);
}

WorkRef Coalesced::add_message(int rank, std::function<WorkRef()> post) {
  messages_.push_back(std::move(post));
  return placeholder(rank, ::c10d::OpType::UNKNOWN);
}

WorkRef Coalesced::launch_all(Group& group) {
  std::vector<WorkRef> parts;
  const auto run = [&](ncclComm_t comm, cudaStream_t stream) {
    return grouped([&] {
      for (const Call& call : calls_) {
        const ncclResult_t code = call(comm, stream);
        if (!is_success(code)) return code;
      }
      for (const auto& post : messages_) parts.push_back(post());
      return ncclSuccess;
    });
  };
  if (calls_.empty()) {  // messages only: nothing for the stream to do
    group.check_usable();
    check(run(group.comm(), nullptr), group.comm());
  } else {
    const Request request{
        ::c10d::OpType::COALESCED, "sabot:coalesced", timeout_, true, inputs_, outputs_};
    parts.push_back(launch(group, request, run, [afters = std::move(afters_)] {
      for (const After& after : afters) after();
    }));
  }
  return c10::make_intrusive<JointWork>(group.member().rank, std::move(parts));
}

}  // namespace sabot::pytorch
