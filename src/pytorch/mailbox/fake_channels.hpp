// Byte channels for tests, in memory and without an engine: bounded queues, peers that leave,
// communicators that fail. One thread.
//
// A communicator's handle is the address of a Seat, one for each rank.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pytorch/mailbox/messages.hpp"

namespace sabot::pytorch {

class FakeChannels {
 public:
  explicit FakeChannels(int ranks, std::size_t capacity_bytes = 1 << 20)
      : capacity_(capacity_bytes) {
    for (int rank = 0; rank < ranks; ++rank) seats_.push_back({this, rank});
    gone_.resize(static_cast<std::size_t>(ranks));
  }
  FakeChannels(const FakeChannels&) = delete;
  FakeChannels& operator=(const FakeChannels&) = delete;

  ncclComm_t comm(int rank) {
    return reinterpret_cast<ncclComm_t>(&seats_[static_cast<std::size_t>(rank)]);
  }
  Messages messages(int rank, TypeName type_name = nullptr) {
    return Messages(table(), comm(rank), rank, static_cast<int>(seats_.size()), type_name);
  }

  void leave(int rank) { gone_[static_cast<std::size_t>(rank)] = true; }
  void fail(const std::string& text) { failure_ = text; }
  std::size_t bytes_under_way(int from, int to) { return pipes_[{from, to}].size(); }

 private:
  struct Seat {
    FakeChannels* channels;
    int rank;
  };
  static Seat& seat(ncclComm_t comm) { return *reinterpret_cast<Seat*>(comm); }

  static ByteChannels table() {
    ByteChannels all;
    all.put = put;
    all.take = take;
    all.wait_begin = [](sabot_wait_t*, ncclComm_t) {};
    all.wait_pause = [](sabot_wait_t*) {};
    all.wait_end = [](sabot_wait_t*) {};
    all.async_error = [](ncclComm_t comm, ncclResult_t* state) {
      *state = seat(comm).channels->failure_.empty() ? ncclSuccess : ncclRemoteError;
      return ncclSuccess;
    };
    all.last_error = [](ncclComm_t comm) -> const char* {
      return seat(comm).channels->said_.c_str();
    };
    return all;
  }

  ncclResult_t refuse(const std::string& function, int peer) {
    if (!failure_.empty()) {
      said_ = function + ": " + failure_;
    } else if (gone_[static_cast<std::size_t>(peer)]) {
      said_ = function + ": rank " + std::to_string(peer) + " destroyed its communicator";
    } else {
      return ncclSuccess;
    }
    return ncclRemoteError;
  }

  static ncclResult_t put(ncclComm_t comm, int peer, const void* data, std::size_t bytes,
                          std::size_t* moved) {
    FakeChannels& here = *seat(comm).channels;
    *moved = 0;
    const ncclResult_t refused = here.refuse("sabot_channel_put", peer);
    if (refused != ncclSuccess) return refused;
    std::deque<std::byte>& pipe = here.pipes_[{seat(comm).rank, peer}];
    const auto* from = static_cast<const std::byte*>(data);
    const std::size_t room = here.capacity_ - std::min(pipe.size(), here.capacity_);
    // As the engine: the first piece of a message is never torn.
    if (room < bytes && bytes <= 4200) return ncclSuccess;
    *moved = std::min(bytes, room);
    pipe.insert(pipe.end(), from, from + *moved);
    return ncclSuccess;
  }

  static ncclResult_t take(ncclComm_t comm, int peer, void* data, std::size_t bytes,
                           std::size_t* moved) {
    FakeChannels& here = *seat(comm).channels;
    *moved = 0;
    std::deque<std::byte>& pipe = here.pipes_[{peer, seat(comm).rank}];
    if (pipe.empty() || !here.failure_.empty()) return here.refuse("sabot_channel_take", peer);
    *moved = std::min(bytes, pipe.size());
    const auto end = pipe.begin() + static_cast<std::ptrdiff_t>(*moved);
    std::copy(pipe.begin(), end, static_cast<std::byte*>(data));
    pipe.erase(pipe.begin(), end);
    return ncclSuccess;
  }

  std::size_t capacity_;
  std::vector<Seat> seats_;
  std::vector<bool> gone_;
  std::map<std::pair<int, int>, std::deque<std::byte>> pipes_;
  std::string failure_;
  std::string said_;
};

}  // namespace sabot::pytorch
