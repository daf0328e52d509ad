// Asking for devices in a forked child, over a pipe, with a deadline.
#include "launch/device_probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

#include "base/fd.hpp"
#include "base/log.hpp"
#include "run/identity.hpp"

namespace sabot::launch {
namespace {

// The child's answer: '+' and the number, or the code of the error and its text.
[[noreturn]] void answer(CountDevices count, int fd) {
  // What a driver prints is nobody's business here.
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) ::dup2(null_fd, standard);
  const Result<int> devices = count();
  const std::string text = devices.ok()
                               ? "+" + std::to_string(*devices)
                               : static_cast<char>('0' + static_cast<int>(devices.error().code())) +
                                     devices.error().message();
  log::write_all(fd, text);
  ::_exit(0);
}

// Everything until the end of the pipe or the deadline; false if the deadline came first.
bool read_until(int fd, int timeout_ms, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::array<char, 1024> buffer{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return true;
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) return true;
  }
}

}  // namespace

Result<int> probe_devices(CountDevices count, int timeout_ms) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error(Code::kSystem, "cannot ask for CUDA devices: " + run::errno_text(errno));
  Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0)
    return Error(Code::kSystem, "cannot ask for CUDA devices: " + run::errno_text(errno));
  if (child == 0) answer(count, writing.get());
  writing.reset();
  std::string text;
  const bool answered = read_until(reading.get(), timeout_ms, text);
  if (!answered) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!answered)
    return Error(Code::kTimeout, "the CUDA driver did not answer within " +
                                     std::to_string(timeout_ms / 1000) + " s");
  if (WIFSIGNALED(status))
    return Error(Code::kCuda, "the CUDA driver died of signal " + std::to_string(WTERMSIG(status)));
  if (text.empty()) return Error(Code::kCuda, "the CUDA driver ended the process that asked it");
  if (text[0] == '+') return std::stoi(text.substr(1));
  return Error(static_cast<Code>(text[0] - '0'), text.substr(1));
}

}  // namespace sabot::launch
