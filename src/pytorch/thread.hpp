// Threads that nobody waits for, because the process may end at any time: the watchdog, the
// mailbox's, the one that makes a communicator. What they use is owned by them. Needs no torch.
#pragma once

#include <functional>

namespace sabot::pytorch {

// Runs body in a thread of this name (at most 15 letters) that takes no signals of the program.
// False if no thread can be started; body is then not run. body must not throw.
bool start_thread(const char* name, std::function<void()> body);

}  // namespace sabot::pytorch
