// Commands at work side by side, and the signals that end the drill.
//
// SIGINT, SIGTERM and SIGHUP are taken from a queue while a pool exists: the first one interrupts
// every command, and no other is started. One thread, one poll(2).
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "drill/keep/keeper.hpp"

namespace sabot::drill {

class Pool {
 public:
  Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // id: how the caller knows this command.
  Status start(std::size_t id, const Order& order);
  std::size_t at_work() const { return commands_.size(); }

  struct Ended {
    std::size_t id;
    Ending ending;
  };
  // Waits for the next ending, at most this long.
  std::vector<Ended> wait(int ms);
  // Waits until this one command has ended.
  static constexpr std::size_t kOnly = 0;
  Result<Ending> run(const Order& order);

  // The signal that ends the drill; 0 = none came.
  int signal() const { return signal_; }

 private:
  struct Command {
    std::size_t id;
    Kept kept;
  };
  void take_signals();

  Fd signals_;
  sigset_t before_{};
  int signal_ = 0;
  std::vector<Command> commands_;
};

}  // namespace sabot::drill
