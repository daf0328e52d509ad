// The keeper: one loop around poll(2), and the ending of a tree.
#include "drill/keep/watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <map>
#include <optional>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "drill/keep/leftovers.hpp"
#include "drill/keep/process_tree.hpp"
#include "drill/keep/stacks.hpp"
#include "run/identity.hpp"

namespace sabot::drill {
namespace {

constexpr std::uint64_t kMsNs = 1'000'000;
constexpr std::size_t kStuckMax = 32;

// The keeper holds nothing of the drill's: neither its terminal nor the sockets of other keepers,
// whose closing tells them that the drill is gone.
void leave_the_drill(int socket) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) ::dup2(nothing, standard);
  ::dup2(socket, 3);
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the child: everything as a command expects to find it.
[[noreturn]] void become(const Order& order, int report) {
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int output = ::open(order.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (output >= 0) {
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::execvpe(order.program.c_str(), pointers(order.words).data(),
              pointers(order.environment).data());
  }
  const int reason = errno;
  log::write_all(report, {reinterpret_cast<const char*>(&reason), sizeof reason});
  ::_exit(127);
}

class Watch {
 public:
  explicit Watch(const Order& order) : order_(order), leftovers_(order.folder) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    signals_ = Fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  Ending carry_out() {
    ending_.started_ns = run::now().epoch_ns;
    begun_ns_ = monotonic_ns();
    const Status started = start();
    if (!started.ok()) {
      ending_.problem = started.error().message();
      ending_.finished_ns = run::now().epoch_ns;
      return std::move(ending_);
    }
    ending_.started = true;
    watch();
    ending_.finished_ns = run::now().epoch_ns;
    leave();
    for (const auto& [key, life] : lives_) ending_.processes.push_back(life);
    return std::move(ending_);
  }

 private:
  Status start() {
    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0)
      return Error(Code::kSystem, "cannot make a pipe: " + run::errno_text(errno));
    command_ = ::fork();
    if (command_ == 0) become(order_, report[1]);
    ::close(report[1]);
    const Fd reader(report[0]);
    if (command_ < 0) return Error(Code::kSystem, "cannot fork: " + run::errno_text(errno));
    int reason = 0;
    if (::read(reader.get(), &reason, sizeof reason) <= 0) return {};
    ::waitpid(command_, nullptr, 0);
    return Error(Code::kSystem, "cannot run '" + order_.program + "': " + run::errno_text(reason));
  }

  void watch() {
    while (!has_ended_) {
      wait(kLookMs);
      reap();
      look();
      if (has_ended_) return;
      if (const Stop stop = reason_to_stop(); stop != Stop::kNone) return end_it(stop);
    }
  }

  // Until a child ends, the drill speaks, or it is time to look.
  void wait(int ms) {
    std::array<pollfd, 2> events{{{signals_.get(), POLLIN, 0}, {3, POLLIN, 0}}};
    ::poll(events.data(), is_interrupted_ ? 1 : 2, ms);
    std::array<signalfd_siginfo, 16> drained{};
    while (::read(signals_.get(), drained.data(), sizeof drained) > 0) {
    }
    if (events[1].revents != 0) is_interrupted_ = true;  // nothing is ever sent: this is the end
  }

  void reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != command_) continue;
      has_ended_ = true;
      if (WIFSIGNALED(status)) ending_.signal = WTERMSIG(status);
      if (WIFEXITED(status)) ending_.exit_status = WEXITSTATUS(status);
    }
  }

  std::vector<Process> look() {
    std::vector<Process> processes = processes_below(::getpid());
    std::erase_if(processes, [](const Process& process) { return !process.is_alive(); });
    const std::uint64_t now_ns = run::now().epoch_ns;
    for (const Process& process : processes) {
      ProcessLife& life = lives_[{process.pid, process.started_ticks}];
      life.pid = process.pid;
      if (life.first_ns == 0) life.first_ns = now_ns;
      life.last_ns = now_ns;
    }
    leftovers_.look(processes);
    return processes;
  }

  Stop reason_to_stop() const {
    if (is_interrupted_) return Stop::kInterrupted;
    if (monotonic_ns() - begun_ns_ >= order_.deadline_ns) return Stop::kDeadline;
    struct stat facts {};
    const bool is_long = ::stat(order_.output.c_str(), &facts) == 0 &&
                         static_cast<std::uint64_t>(facts.st_size) > kOutputBytesMax;
    return is_long ? Stop::kOutput : Stop::kNone;
  }

  // A command that is asked first can take its own workers and files away.
  void end_it(Stop stop) {
    ending_.stop = stop;
    const std::vector<Process> processes = look();
    for (const Process& process : processes)
      if (ending_.stuck.size() < kStuckMax)
        ending_.stuck.push_back("process " + whereabouts_text(process));
    if (stop == Stop::kDeadline) write_stacks(order_.folder + "/stacks", processes);
    ::kill(command_, SIGTERM);
    const std::uint64_t until_ns = monotonic_ns() + kTermMs * kMsNs;
    while (!has_ended_ && monotonic_ns() < until_ns) {
      wait(kLookMs);
      reap();
    }
    if (has_ended_) return;
    ::kill(command_, SIGKILL);
    ending_.signal = SIGKILL;
  }

  // Whoever outlives the command may leave by itself for a while; what then is there was left.
  void leave() {
    const bool is_ended_by_us = ending_.stop != Stop::kNone;
    const std::uint64_t until_ns = monotonic_ns() + (is_ended_by_us ? 0 : kLeaveMs * kMsNs);
    std::vector<Process> left = look();
    while (!left.empty() && monotonic_ns() < until_ns) {
      wait(kLookMs / 4);
      reap();
      left = look();
    }
    if (!is_ended_by_us)
      for (const Process& process : left)
        ending_.leaked.push_back("process " + process_text(process.pid));
    for (std::string& survivor : end_all_below(::getpid()))
      ending_.leaked.push_back(std::move(survivor));
    for (std::string& file : leftovers_.remaining()) ending_.leaked.push_back(std::move(file));
  }

  const Order& order_;
  Leftovers leftovers_;
  Fd signals_;
  pid_t command_ = 0;
  bool has_ended_ = false;
  bool is_interrupted_ = false;
  std::uint64_t begun_ns_ = 0;
  std::map<std::pair<pid_t, std::uint64_t>, ProcessLife> lives_;
  Ending ending_;
};

}  // namespace

std::vector<std::string> end_all_below(pid_t root) {
  const std::uint64_t until_ns = monotonic_ns() + kKillMs * kMsNs;
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::vector<Process> left = processes_below(root);
    std::erase_if(left, [](const Process& process) { return !process.is_alive(); });
    if (left.empty()) return {};
    if (monotonic_ns() >= until_ns) {
      std::vector<std::string> texts;
      for (const Process& process : left)
        texts.push_back("process " + whereabouts_text(process) + ", and SIGKILL does not end it");
      return texts;
    }
    for (const Process& process : left) ::kill(process.pid, SIGKILL);
    ::poll(nullptr, 0, 5);
  }
}

void keep(const Order& order, int socket) {
  leave_the_drill(socket);
  log::write_all(3, to_json(Watch(order).carry_out()));
  ::_exit(0);
}

}  // namespace sabot::drill
