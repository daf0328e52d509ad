// Birth, splitting, coalescing and the end of a group.
#include "pytorch/backend.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "pytorch/group/meeting.hpp"
#include "pytorch/python_lock.hpp"

namespace sabot::pytorch {
namespace {

// A second communicator of the same ranks beneath the layers, for the mailbox.
ncclComm_t split_beneath(ncclComm_t comm, int rank) {
  ncclComm_t beneath = nullptr;
  const ncclResult_t code = library().beneath.CommSplit(comm, 0, rank, &beneath, nullptr);
  if (code != ncclSuccess) {
    throw_error(code, library().beneath.GetLastError(nullptr), Style::kBackendError, here());
  }
  return beneath;
}

// Older versions of torch have no name for the child in its options.
template <typename Options>
std::string name_in(const Options& options, const std::string& otherwise) {
  if constexpr (requires { options.group_name; }) return options.group_name;
  return otherwise;
}

}  // namespace

c10::intrusive_ptr<SabotBackend> SabotBackend::create(StoreRef store, Member member) {
  const ncclComm_t comm = meet(*store, member);
  const int rank = member.rank;
  auto group = Group::make(std::move(member), comm, split_beneath(comm, rank));
  return c10::make_intrusive<SabotBackend>(std::move(store), std::move(group));
}

SabotBackend::SabotBackend(StoreRef store, std::shared_ptr<Group> group)
    : Backend(group->member().rank, group->member().size),
      store_(std::move(store)),
      group_(std::move(group)),
      barrier_(at::zeros({1}, at::kFloat)) {
  init();
}

SabotBackend::~SabotBackend() {
  const WithoutPythonLock unlocked;
  try {
    group_->close();
  } catch (const std::exception& failure) {
    TORCH_WARN("sabot: destroying group ", group_->member().group, ": ", failure.what());
  }
}

c10::intrusive_ptr<::c10d::Backend> SabotBackend::split(
    const StoreRef& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  group_->check_usable();
  const Member& parent = group_->member();
  const auto place = std::find(ranks.begin(), ranks.end(), parent.rank);
  const bool is_member = place != ranks.end();
  const int color = is_member ? *std::min_element(ranks.begin(), ranks.end()) : NCCL_SPLIT_NOCOLOR;
  const auto key = static_cast<int>(place - ranks.begin());
  ncclComm_t comm = nullptr;
  check(library().CommSplit(group_->comm(), color, key, &comm, nullptr), group_->comm());
  if (!is_member) return nullptr;
  Member member;
  member.rank = key;
  member.size = static_cast<int>(ranks.size());
  const std::string number = std::to_string(++splits_);
  member.group = name_in(*options, parent.group + ":split:" + number);
  member.timeout = group_->timeout_or(options->timeout);
  member.session = parent.session + "/" + number;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    member.global_ranks.push_back(index < parent.global_ranks.size() ? parent.global_ranks[index]
                                                                     : rank);
  }
  auto group = Group::make(std::move(member), comm, split_beneath(comm, key));
  return c10::make_intrusive<SabotBackend>(store, std::move(group));
}

// A new object each time: the caller writes the child's name and timeout into it.
c10::intrusive_ptr<SabotBackend::Options> SabotBackend::getBackendOptions() {
  return c10::make_intrusive<Options>("sabot", group_->timeout_or(Milliseconds(0)));
}

void SabotBackend::monitoredBarrier(const ::c10d::BarrierOptions& options, bool all_ranks) {
  group_->check_usable();
  const bool is_unset = options.timeout == ::c10d::kUnsetTimeout;
  monitored_barrier(*store_, group_->member(), ++monitored_barriers_,
                    is_unset ? group_->timeout_or(options.timeout) : options.timeout, all_ranks);
}

void SabotBackend::startCoalescing() { coalesced_ = std::make_unique<Coalesced>(); }

WorkRef SabotBackend::endCoalescing() {
  if (coalesced_ == nullptr) {
    C10_THROW_ERROR(ValueError, "sabot: endCoalescing without startCoalescing");
  }
  const std::unique_ptr<Coalesced> collected = std::move(coalesced_);
  return collected->launch_all(*group_);
}

void SabotBackend::abort() { group_->abort("the application aborted it"); }

void SabotBackend::shutdown() { group_->close(); }

}  // namespace sabot::pytorch
