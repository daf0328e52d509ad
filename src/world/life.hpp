// Is that process still alive? Answered by the kernel, without threads and without messages.
//
// Every process write-locks one memfd of its own and never closes it; peers hold a descriptor of it
// and ask whether the lock is still taken. POSIX locks belong to the process: they go when it dies,
// by whatever signal, and a forked child does not keep them alive. Two traps follow and are handled
// here: a process cannot see its own lock, and closing any descriptor of the file in the owning
// process drops it; so this process's own life is never received and never closed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace sabot::world {

// Names a process for as long as it lives; unlike a pid it is never used again.
using ProcessKey = std::uint64_t;

// The life of this process. Made at first use, again after a fork; lives until the process ends.
struct OwnLife {
  pid_t pid = 0;
  ProcessKey key = 0;
  int fd = -1;  // lend it to peers, never close it
};
Result<const OwnLife*> own_life();

// The life of some process, possibly this one. Copies share one descriptor; thread-safe.
class Life {
 public:
  Life() = default;
  static Life of_this_process(const OwnLife& own) { return Life(own.pid, own.key, nullptr); }
  // Takes over fd, a descriptor of the peer's life file.
  static Life of_peer(pid_t pid, ProcessKey key, Fd fd) {
    return Life(pid, key, std::make_shared<Fd>(std::move(fd)));
  }

  // One system call for a peer, none for this process.
  bool is_alive() const;
  pid_t pid() const { return pid_; }
  ProcessKey key() const { return key_; }

 private:
  Life(pid_t pid, ProcessKey key, std::shared_ptr<const Fd> fd)
      : pid_(pid), key_(key), fd_(std::move(fd)) {}

  pid_t pid_ = 0;
  ProcessKey key_ = 0;
  std::shared_ptr<const Fd> fd_;
};

}  // namespace sabot::world
