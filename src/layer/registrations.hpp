// The communicators with which the application registered a buffer or a window.
//
// Kept until the communicator ends: whether a buffer was deregistered since is NCCL's affair, and a
// mismatch that is refused once too often harms nobody. Thread-safe.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

namespace sabot::layer {

class Registrations {
 public:
  void note(const void* comm) {
    const std::lock_guard lock(mutex_);
    if (std::find(comms_.begin(), comms_.end(), comm) == comms_.end()) comms_.push_back(comm);
  }
  void forget(const void* comm) {
    const std::lock_guard lock(mutex_);
    std::erase(comms_, comm);
  }
  bool has(const void* comm) {
    const std::lock_guard lock(mutex_);
    return std::find(comms_.begin(), comms_.end(), comm) != comms_.end();
  }

 private:
  std::mutex mutex_;
  std::vector<const void*> comms_;
};

}  // namespace sabot::layer
