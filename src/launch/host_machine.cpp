// The launcher's questions, answered by this machine.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "config/snapshot.hpp"
#include "launch/command.hpp"
#include "launch/nccl_search.hpp"
#include "real/elf_file.hpp"
#include "real/ld_cache.hpp"

namespace sabot::launch {
namespace {

constexpr int kPythonWaitMs = 15'000;
constexpr std::size_t kAnswerBytesMax = 256 * 1024;
constexpr std::size_t kCacheBytesMax = 16 * 1024 * 1024;

std::string read_until_deadline(int fd, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() < kAnswerBytesMax) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return "";
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return "";
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// What a short command prints, "" if it fails or takes too long. Its errors are nobody's business.
std::string output_of(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const auto* const environment = config::environment();
  const int failed = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(),
                                   const_cast<char* const*>(environment));
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return "";
  writing.reset();
  std::string text = read_until_deadline(reading.get(), kPythonWaitMs);
  ::kill(child, SIGKILL);  // it has answered or it never will
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return text;
}

}  // namespace

bool HostMachine::is_file(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

Machine::Links HostMachine::links_of(const std::string& path) {
  const Result<real::ElfFile> file = real::ElfFile::open(path);
  if (!file.ok()) return {};
  return {file->needed(), file->rpath(), file->runpath()};
}

std::string HostMachine::interpreter_of(const std::string& program) {
  return launch::interpreter_of(program, path_);
}

std::vector<std::string> HostMachine::python_path(const std::string& interpreter) {
  const std::string text =
      output_of({interpreter, "-c", "import sys; print('\\n'.join(sys.path))"});
  std::vector<std::string> folders;
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty()) folders.emplace_back(line);
  return folders;
}

std::vector<std::string> HostMachine::cached_libraries(const std::string& name) {
  const Fd file(::open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {};
  std::string bytes;
  std::array<char, 65536> buffer{};
  while (bytes.size() < kCacheBytesMax) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return real::paths_in_ld_cache(bytes, name);
}

std::string HostMachine::program_of(const std::string& word) {
  Result<std::string> program = find_program(word, path_);
  return program.ok() ? std::move(program).value() : "";
}

std::string HostMachine::unreachable_text(const std::string& path) {
  return launch::unreachable_text(path);
}

}  // namespace sabot::launch
