// The processes below one process, as /proc shows them.
//
// A subreaper sees everything that its children ever started, daemons included, since orphans come
// to it: one walk over /proc finds them all. What is read may be gone a moment later; a process is
// told from a later one of its number by its start time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sabot::drill {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';                 // of /proc: R, S, D, Z …
  std::uint64_t started_ticks = 0;  // since boot
  bool is_alive() const { return state != 'Z' && state != 'X'; }
};

// All below root, not root itself.
std::vector<Process> processes_below(pid_t root);
// "4711 (python3 train.py)", cut to what fits a message.
std::string process_text(pid_t pid);
// Where its threads are: "4711 (python3 train.py): 12 threads, the first waits in
// futex_wait_queue".
std::string whereabouts_text(const Process& process);

}  // namespace sabot::drill
