// Where a run is controlled: RUN/control.sock, and RUN/control.server, which says by whom.
//
// Several launchers may share a run folder (nested, one per task, one per host). Who holds the lock
// on control.server serves; the others wait for it. The lock is the kernel's, so that a launcher
// that was killed leaves none, and a socket file without a launcher behind it can be replaced. A
// socket's address holds 107 bytes: a longer path is reached through /proc/self/fd of the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace sabot::launch::control {

// Who serves, or did last.
struct ServerMark {
  std::string host;
  std::int64_t pid = 0;
};
std::optional<ServerMark> read_server_mark(const std::string& run_folder);

// The right to serve a run: held as long as the object lives.
class ServingLock {
 public:
  // Nothing: another launcher holds it. The mark names this process from here on.
  static Result<std::optional<ServingLock>> take(const std::string& run_folder);

 private:
  explicit ServingLock(Fd file) : file_(std::move(file)) {}
  Fd file_;
};

// The socket to accept from, mode 0600; replaces one that is there. For the holder of the lock.
Result<Fd> listen_in(const std::string& run_folder);
void remove_socket(const std::string& run_folder);

// A connection; sending and receiving on it end after the time. kNotFound: no such run, or it has
// ended; the text says which, and on which host it is controlled where that is another.
Result<Fd> connect_to(const std::string& run_folder, int timeout_s);

}  // namespace sabot::launch::control
