// Opening on demand and writing once.
#include "run/record/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "run/identity.hpp"

namespace sabot::run {

AppendFile::~AppendFile() {
  const int fd = fd_.load();
  if (fd >= 0) ::close(fd);
}

void AppendFile::open(std::string path) {
  path_ = std::move(path);
  owner_pid_.store(::getpid());
}

bool AppendFile::is_owner() const { return owner_pid_.load() == ::getpid(); }

Result<int> AppendFile::descriptor() {
  const int held = fd_.load();
  if (held >= 0) return held;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  int opened = ::open(path_.c_str(), kFlags, 0666);
  if (opened < 0 && errno == ENOENT) {
    ::mkdir(path_.substr(0, path_.rfind('/')).c_str(), 0777);
    opened = ::open(path_.c_str(), kFlags, 0666);
  }
  if (opened < 0)
    return Error(Code::kSystem, std::string("cannot open the ") + what_ + " '" + path_ +
                                    "': " + errno_text(errno));
  // Two threads may write their first line at once: the later one uses the descriptor of the
  // earlier.
  int none = -1;
  if (fd_.compare_exchange_strong(none, opened)) return opened;
  ::close(opened);
  return none;
}

Status AppendFile::append(std::string line) {
  // The process id is compared as well, for forks that no handler has seen (clone, vfork).
  if (!is_owner())
    return Error(Code::kInvalidUsage,
                 std::string("this process was forked and has no ") + what_ + " of its own");
  if (path_.empty()) return {};
  const int fd = SABOT_TRY(descriptor());
  line.push_back('\n');
  ssize_t written = 0;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return {};
  return Error(Code::kSystem, std::string("cannot append to the ") + what_ + " '" + path_ +
                                  "': " + errno_text(written < 0 ? errno : ENOSPC));
}

void AppendFile::after_fork_child() noexcept {
  const int fd = fd_.exchange(-1);
  if (fd >= 0) ::close(fd);
  owner_pid_.store(0);
}

}  // namespace sabot::run
