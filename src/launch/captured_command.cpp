// posix_spawn with one pipe for both outputs, read against a deadline.
#include "launch/captured_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/fd.hpp"
#include "run/identity.hpp"

namespace sabot::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kGraceMs = 5'000;  // between asking a command to end and killing it

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& act) : act_(act) {}
  void add(std::string_view bytes) {
    held_.append(bytes);
    std::size_t begin = 0;
    for (std::size_t end; (end = held_.find('\n', begin)) != held_.npos; begin = end + 1)
      act_(std::string_view(held_).substr(begin, end - begin));
    held_.erase(0, begin);
  }
  ~Lines() {
    if (!held_.empty()) act_(held_);
  }

 private:
  const std::function<void(std::string_view)>& act_;
  std::string held_;
};

// True at the end of the pipe, false at the deadline.
bool read_lines(int fd, Clock::time_point deadline, Lines& lines) {
  std::array<char, 4096> buffer{};
  while (left_ms(deadline) > 0) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, left_ms(deadline)) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return true;
    if (got > 0) lines.add({buffer.data(), static_cast<std::size_t>(got)});
  }
  return false;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

Ending wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_status = WEXITSTATUS(status)};
}

}  // namespace

Result<Ending> run_captured(const std::vector<std::string>& words,
                            const std::vector<std::string>& environment, int timeout_ms,
                            const std::function<void(std::string_view line)>& line) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error(Code::kSystem, "cannot run '" + words[0] + "': " + run::errno_text(errno));
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const int standard : {1, 2})
    ::posix_spawn_file_actions_adddup2(&actions, writing.get(), standard);
  pid_t child = 0;
  const int reason = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr,
                                   pointers(words).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (reason != 0)
    return Error(Code::kSystem, "cannot run '" + words[0] + "': " + run::errno_text(reason));
  writing.reset();
  Lines lines(line);
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  if (read_lines(reading.get(), deadline, lines)) return wait_for(child);
  ::kill(child, SIGTERM);
  if (!read_lines(reading.get(), Clock::now() + std::chrono::milliseconds(kGraceMs), lines))
    ::kill(child, SIGKILL);
  wait_for(child);
  return Error(Code::kTimeout,
               "'" + words[0] + "' did not end within " + std::to_string(timeout_ms / 1000) + " s");
}

}  // namespace sabot::launch
