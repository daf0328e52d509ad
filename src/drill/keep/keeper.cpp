// Starting a keeper, and taking its word.
#include "drill/keep/keeper.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <set>

#include "drill/keep/process_tree.hpp"
#include "drill/keep/watch.hpp"
#include "run/identity.hpp"

namespace sabot::drill {
namespace {

// Of this process, at work now.
std::set<pid_t>& keepers() {
  static std::set<pid_t> all;
  return all;
}

// What a keeper that was killed leaves comes to this process, a subreaper: whoever is a child of it
// and no keeper is to go, with all below.
void end_orphans() {
  for (int round = 0; round < kKillMs / 10; ++round) {
    bool is_any_left = false;
    for (const Process& child : processes_below(::getpid())) {
      if (child.parent != ::getpid() || keepers().contains(child.pid)) continue;
      is_any_left = true;
      for (const Process& below : processes_below(child.pid)) ::kill(below.pid, SIGKILL);
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, WNOHANG);
    }
    if (!is_any_left) return;
    ::poll(nullptr, 0, 10);
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<Kept> Kept::start(const Order& order) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return Error(Code::kSystem, "cannot make a socket: " + run::errno_text(errno));
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t keeper = ::fork();
  if (keeper < 0) return Error(Code::kSystem, "cannot fork: " + run::errno_text(errno));
  if (keeper == 0) keep(order, theirs.get());
  keepers().insert(keeper);
  return Kept(keeper, std::move(ours));
}

Kept::~Kept() {
  if (!socket_.valid()) return;
  socket_.reset();
  wait_for(keeper_);
  keepers().erase(keeper_);
}

bool Kept::take() {
  for (;;) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

Ending Kept::ending() {
  socket_.reset();
  const int status = wait_for(keeper_);
  keepers().erase(keeper_);
  Result<Ending> told = ending_of(received_);
  if (told.ok()) return std::move(told).value();
  end_orphans();
  Ending lost;
  lost.problem = "the process that kept the command ended before it could tell what became of it";
  if (WIFSIGNALED(status)) lost.problem += " (signal " + std::to_string(WTERMSIG(status)) + ")";
  return lost;
}

void Kept::interrupt() { ::shutdown(socket_.get(), SHUT_WR); }

}  // namespace sabot::drill
