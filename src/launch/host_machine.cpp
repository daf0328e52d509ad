// The launcher's questions, answered by this machine.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/fd.hpp"
#include "config/snapshot.hpp"
#include "launch/captured_command.hpp"
#include "launch/command.hpp"
#include "launch/nccl_search.hpp"
#include "real/elf_file.hpp"
#include "real/ld_cache.hpp"

namespace sabot::launch {
namespace {

constexpr int kPythonWaitMs = 15'000;
// Tells the interpreter's answer from what a site's start-up files may print.
constexpr std::string_view kMark = "sabot-path:";
constexpr std::size_t kCacheBytesMax = 16 * 1024 * 1024;

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
  std::vector<std::string> environment;
  for (const char* const* entry = config::environment(); *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  std::vector<std::string> folders;
  const Result<Ending> ending = run_captured(
      {interpreter, "-c", "import sys\nfor path in sys.path: print('sabot-path:' + path)"},
      environment, kPythonWaitMs, [&folders](std::string_view line) {
        if (line.starts_with(kMark)) folders.emplace_back(line.substr(kMark.size()));
      });
  if (!ending.ok()) folders.clear();
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
