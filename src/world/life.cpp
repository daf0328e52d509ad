// The life file: a locked memfd. See life.hpp for why POSIX record locks and not pidfds: a pidfd of
// a sibling needs pidfd_open by number, which races with pid reuse and with other pid namespaces.
#include "world/life.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "world/machine.hpp"

namespace sabot::world {
namespace {

// Never freed: a descriptor closed at exit would announce our death before we are dead.
std::atomic<const OwnLife*> current{nullptr};

Error refused(const char* what) {
  return Error(Code::kSystem,
               std::string("creating the file by which peers notice the death of this "
                           "process: ") +
                   what + ": " + std::strerror(errno));
}

Result<std::unique_ptr<OwnLife>> create() {
  Fd file(::memfd_create("sabot-life", MFD_CLOEXEC));
  if (!file.valid()) return refused("memfd_create");
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_SETLK, &lock) != 0) return refused("fcntl(F_SETLK)");
  auto life = std::make_unique<OwnLife>();
  life->pid = ::getpid();
  life->key = SABOT_TRY(random_bits());
  life->fd = file.release();
  return life;
}

}  // namespace

Result<const OwnLife*> own_life() {
  const pid_t pid = ::getpid();
  const OwnLife* seen = current.load();
  if (seen != nullptr && seen->pid == pid) return seen;
  std::unique_ptr<OwnLife> mine = SABOT_TRY(create());
  while (seen == nullptr || seen->pid != pid) {
    if (current.compare_exchange_weak(seen, mine.get())) return mine.release();
  }
  ::close(mine->fd);  // another thread was first; nobody has seen this file
  return seen;
}

bool Life::is_alive() const {
  if (fd_ == nullptr) return true;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd_->get(), F_GETLK, &lock) != 0) return true;  // unknown is not dead
  return lock.l_type != F_UNLCK;
}

}  // namespace sabot::world
