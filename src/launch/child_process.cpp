// posix_spawn, a blocked signal set, and one loop around sigwaitinfo.
#include "launch/child_process.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "launch/command.hpp"
#include "run/identity.hpp"

namespace sabot::launch {
namespace {

constexpr std::array kPassedOn{SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                               SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

// Blocks what is to be taken from the queue and ignores SIGPIPE, since the last line of a run must
// not die of a closed stderr; remembers what was there for the command and for afterwards.
class SignalQueue {
 public:
  SignalQueue() {
    ::sigemptyset(&taken_);
    ::sigaddset(&taken_, SIGCHLD);
    for (const int signal : kPassedOn) ::sigaddset(&taken_, signal);
    ::pthread_sigmask(SIG_BLOCK, &taken_, &before_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &pipe_before_);
    // With SIGCHLD ignored, which parents may hand down, the kernel keeps no status to wait for.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &child_before_);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue() {
    ::sigaction(SIGPIPE, &pipe_before_, nullptr);
    ::sigaction(SIGCHLD, &child_before_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  siginfo_t next() const {
    siginfo_t event{};
    while (::sigwaitinfo(&taken_, &event) < 0) {
    }
    return event;
  }
  const sigset_t& mask_before() const { return before_; }
  bool pipe_was_default() const { return pipe_before_.sa_handler == SIG_DFL; }

 private:
  sigset_t taken_{};
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  struct sigaction child_before_ {};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

Result<pid_t> spawn(const SignalQueue& signals, const std::string& program,
                    const std::vector<std::string>& words,
                    const std::vector<std::string>& environment) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  if (signals.pipe_was_default()) ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &signals.mask_before());
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  int reason = ::posix_spawn(&child, program.c_str(), nullptr, &attributes, pointers(words).data(),
                             pointers(environment).data());
  if (reason == ENOEXEC) {
    // A script without #!: execvp, and with it every shell, gives it to sh.
    std::vector<std::string> shell{"sh", program};
    shell.insert(shell.end(), words.begin() + 1, words.end());
    reason = ::posix_spawn(&child, "/bin/sh", nullptr, &attributes, pointers(shell).data(),
                           pointers(environment).data());
  }
  ::posix_spawnattr_destroy(&attributes);
  if (reason == 0) return child;
  return Error(Code::kSystem, "cannot run '" + program + "': " + run::errno_text(reason));
}

std::optional<Ending> collect(pid_t child) {
  int status = 0;
  const pid_t ended = ::waitpid(child, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  if (ended < 0) return errno == EINTR ? std::nullopt : std::optional(Ending{.exit_status = 1});
  if (WIFSIGNALED(status)) return Ending{.signal = WTERMSIG(status)};
  return Ending{.exit_status = WEXITSTATUS(status)};
}

// The kernel sends a terminal's signals to the whole job; everything else came to us alone.
bool came_from_terminal(const siginfo_t& event) { return event.si_code == SI_KERNEL; }

// Stops this process if the kernel would have: not where no shell is left that could continue it.
void stop_as_usual() {
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace

Result<Ending> run_child(const std::string& program, const std::vector<std::string>& words,
                         const std::vector<std::string>& environment) {
  const SignalQueue signals;
  const pid_t child = SABOT_TRY(spawn(signals, program, words, environment));
  for (;;) {
    const siginfo_t event = signals.next();
    if (event.si_signo == SIGCHLD) {
      if (const std::optional<Ending> ending = collect(child)) return *ending;
      continue;
    }
    if (!came_from_terminal(event)) ::kill(child, event.si_signo);
    if (event.si_signo == SIGTSTP) stop_as_usual();
  }
}

}  // namespace sabot::launch
