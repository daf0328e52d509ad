// One command, kept: its own session, a deadline, and nothing of it left when it is over.
//
// Each command gets a process of ours as its keeper. The keeper is a subreaper, so that even
// daemons of the command stay below it, and it hangs on a socket to the drill: should the drill be
// killed, the keeper ends everything and goes. Should the keeper be killed, the drill, a subreaper
// too, inherits what is left and ends it. Starting is fork without exec: the caller must have no
// other thread, and no children but keepers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "drill/keep/ending.hpp"

namespace sabot::drill {

inline constexpr int kLookMs = 100;    // how often the keeper looks at the processes
inline constexpr int kLeaveMs = 2000;  // for processes that outlive the command to leave
inline constexpr int kTermMs = 2000;   // from SIGTERM to SIGKILL
inline constexpr int kKillMs = 5000;   // for what was killed to be gone
inline constexpr std::uint64_t kOutputBytesMax = 1ULL << 30;

struct Order {
  std::string program;  // a path, or a word that is looked up in PATH
  std::vector<std::string> words;
  std::vector<std::string> environment;  // NAME=VALUE
  std::string output;                    // stdout and stderr, appended
  std::string folder;                    // of the case: files below it are no leftovers
  std::uint64_t deadline_ns = 0;
};

// A command at work. Destroying it ends the command.
class Kept {
 public:
  static Result<Kept> start(const Order& order);
  Kept(Kept&& other) noexcept = default;
  Kept& operator=(Kept&& other) noexcept = default;
  ~Kept();

  // Becomes readable as the ending comes.
  int descriptor() const { return socket_.get(); }
  // Takes what has come; true when that is all. Never blocks.
  bool take();
  // Precondition: take() said true. Waits for the keeper, which is about to exit.
  Ending ending();
  // Tells the keeper to end everything now; the ending still comes.
  void interrupt();

 private:
  Kept(pid_t keeper, Fd socket) : keeper_(keeper), socket_(std::move(socket)) {}

  pid_t keeper_ = 0;
  Fd socket_;
  std::string received_;
};

}  // namespace sabot::drill
