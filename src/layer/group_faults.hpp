// The open group of a thread, as far as faults are concerned: what fired in it, and what its
// outermost GroupEnd will say.
//
// Inside a group calls only enqueue, so the application hears of an error from the outermost
// GroupEnd. A group that is dropped is not launched: its later calls are not forwarded, and the
// library is made to drop what it already holds by being handed a call that can only be wrong. One
// state a thread and lane: a group of one engine may be open while the thread calls the other.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "layer/ordeal.hpp"

namespace sabot::layer {

struct GroupFaults {
  std::uint64_t group = 0;  // number of the group this state belongs to
  bool is_dropped = false;  // nothing of this group is launched
  bool is_cut_off = false;  // a communicator of it ended: it is not to be touched any more
  bool has_forwarded = false;
  const void* forwarded_comm = nullptr;  // some communicator that the library holds work for
  ncclResult_t result = ncclSuccess;     // of the first error that fired
  std::string text;
  std::array<const void*, 8> hit{};  // non-blocking communicators to mark
  std::size_t hit_count = 0;
  std::vector<std::unique_ptr<Ordeal>> ordeals;  // of calls whose work is still to be seen to

  void fail(ncclResult_t code, std::string_view why) {
    if (result != ncclSuccess) return;
    result = code;
    text = why;
  }
  void hit_comm(const abi::Call& call) {
    if (call.nonblocking && hit_count < hit.size()) hit[hit_count++] = call.comm;
  }
};

// That of the group in which the call is, fresh if the call is its first here.
GroupFaults& group_of(const abi::Call& call);

}  // namespace sabot::layer
