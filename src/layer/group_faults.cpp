// One state a lane, found by the number of the group.
#include "layer/group_faults.hpp"

namespace sabot::layer {
namespace {

// On the heap, for the reason that call/last_error.cpp gives.
thread_local std::unique_ptr<std::array<GroupFaults, abi::kLaneCount>> open_groups;

}  // namespace

GroupFaults& group_of(const abi::Call& call) {
  if (open_groups == nullptr)
    open_groups = std::make_unique<std::array<GroupFaults, abi::kLaneCount>>();
  GroupFaults& open = (*open_groups)[static_cast<std::size_t>(call.lane)];
  if (open.group != call.group) {
    open = GroupFaults{};
    open.group = call.group;
  }
  return open;
}

}  // namespace sabot::layer
