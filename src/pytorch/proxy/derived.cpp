// Groups that come from a group: the wrapped backend makes them, each gets a proxy of its own.
#include <algorithm>

#include "pytorch/proxy/proxy.hpp"

namespace sabot::pytorch::proxy {
namespace {

// The name that torch gives to the new group, where options have one (torch 2.8).
template <typename Options>
std::string name_from(const Options& options, const std::string& otherwise) {
  if constexpr (requires { options->group_name; }) {
    if (options && !options->group_name.empty()) return options->group_name;
  }
  return otherwise;
}

}  // namespace

BackendRef Proxy::wrap_child(const BackendRef& child, Member member, const void* parent) {
  if (!child) return child;  // this rank is in none of the new groups
  member.rank = child->getRank();
  member.size = child->getSize();
  return create(child, inner_name_, std::move(member), parent);
}

BackendRef Proxy::split(const StoreRef& store, const std::vector<int>& ranks,
                        const c10::intrusive_ptr<Options>& options) {
  check_usable("split");
  hand_down();
  Announced call(call_of("CommSplit", key()));
  BackendRef child;
  if (call.is_to_run()) {
    child = executed(
        call, [&] { return SABOT_FORWARD(*inner_, BackendRef(), split, store, ranks, options); });
  }
  call.leave();
  Member member;
  member.group = name_from(options, member_.group + ":split");
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    member.global_ranks.push_back(index < member_.global_ranks.size() ? member_.global_ranks[index]
                                                                      : rank);
  }
  return wrap_child(child, std::move(member), key());
}

// Ranks of several groups; to NCCL a new communicator.
BackendRef Proxy::merge(const StoreRef& store, const c10::intrusive_ptr<Options>& options,
                        const int& rank, const int& size) {
  check_usable("merge");
  hand_down();
  Member member;
  member.group = name_from(options, member_.group + ":merge");
  return wrap_child(SABOT_FORWARD(*inner_, BackendRef(), merge, store, options, rank, size),
                    std::move(member), nullptr);
}

BackendRef Proxy::shrink(const Sizes& ranks_to_exclude, int flags,
                         const c10::intrusive_ptr<Options>& options) {
  check_usable("shrink");
  hand_down();
  Announced call(call_of("CommShrink", key()));
  BackendRef child;
  if (call.is_to_run()) {
    child = executed(call, [&] {
      return SABOT_FORWARD(*inner_, BackendRef(), shrink, ranks_to_exclude, flags, options);
    });
  }
  call.leave();
  Member member;
  member.group = name_from(options, member_.group + ":shrink");
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(member_.size); ++rank) {
    const auto number = static_cast<std::int64_t>(rank);
    if (std::find(ranks_to_exclude.begin(), ranks_to_exclude.end(), number) !=
        ranks_to_exclude.end()) {
      continue;
    }
    member.global_ranks.push_back(rank < member_.global_ranks.size() ? member_.global_ranks[rank]
                                                                     : number);
  }
  return wrap_child(child, std::move(member), key());
}

}  // namespace sabot::pytorch::proxy
