// Starting the command, passing signals on to it, and learning how it ended.
//
// The command stays in the launcher's process group, so that the terminal treats both as one job:
// Ctrl-C, Ctrl-Z and fg reach it from the kernel and are not passed on a second time (their si_code
// says so). A signal that somebody sent to the launcher alone is passed on. All of them are blocked
// and taken from a queue, hence there are no handlers and no races between a signal and the wait.
// The command gets the signal mask and the dispositions that the launcher was started with.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"

namespace sabot::launch {

struct Ending {
  int exit_status = 0;  // of the command, if it exited
  int signal = 0;       // that killed it, 0 = none
  // As a shell says it: the exit status, or 128 + signal.
  int shell_status() const { return signal != 0 ? 128 + signal : exit_status; }
};

// Runs until the command has ended. kNotFound or kSystem: it could not be started.
Result<Ending> run_child(const std::string& program, const std::vector<std::string>& words,
                         const std::vector<std::string>& environment);

}  // namespace sabot::launch
