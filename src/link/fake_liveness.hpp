// A Liveness that tests drive: peers die when told to, or when a forked child of the test ends.
#pragma once

#include <sys/wait.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "link/liveness.hpp"
#include "link/segment.hpp"

namespace sabot::link {

class FakeLiveness : public Liveness {
 public:
  void kill(int rank) { dead_[static_cast<std::size_t>(rank)].store(true); }
  // From now on this rank counts as dead as soon as this child of the calling process has ended.
  void watch(int rank, pid_t child) { children_[static_cast<std::size_t>(rank)].store(child); }

  std::optional<DeadPeer> check() override { return check_except(0); }
  std::optional<DeadPeer> check_except(std::uint64_t ignored) override {
    for (std::size_t rank = 0; rank < dead_.size(); ++rank) {
      const pid_t child = children_[rank].load();
      siginfo_t ended{};
      const bool gone = child != 0 && (waitid(P_PID, static_cast<id_t>(child), &ended,
                                              WEXITED | WNOHANG | WNOWAIT) != 0 ||
                                       ended.si_pid == child);
      if ((ignored >> rank & 1) != 0) continue;
      if (gone || dead_[rank].load()) return DeadPeer{static_cast<int>(rank), "died (test)"};
    }
    return std::nullopt;
  }

 private:
  std::array<std::atomic<bool>, kRanksMax> dead_{};
  std::array<std::atomic<pid_t>, kRanksMax> children_{};
};

}  // namespace sabot::link
