// /proc/PID/task, and a debugger under a time limit.
#include "drill/keep/stacks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <sstream>

#include "run/identity.hpp"
#include "run/read/folder_listing.hpp"
#include "run/text_file.hpp"

namespace sabot::drill {
namespace {

constexpr std::size_t kProcessesMax = 32;
constexpr int kPollMs = 10;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string first_line_of(const std::string& path) {
  const std::string text = content_of(path);
  return text.substr(0, text.find('\n'));
}

std::string threads_text(pid_t pid) {
  std::string out;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  for (const std::string& thread : run::list_folder(folder, "")) {
    const std::string place = folder + "/" + thread;
    out += "thread " + thread + " (" + first_line_of(place + "/comm") + "): waits in '" +
           first_line_of(place + "/wchan") + "', system call " + first_line_of(place + "/syscall") +
           "\n";
  }
  return out;
}

// Both debuggers stop the process while they look and let it go afterwards.
[[noreturn]] void debug(const std::string& pid, const std::string& output) {
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) ::_exit(127);
  ::dup2(file, 1);
  ::dup2(file, 2);
  ::execlp("eu-stack", "eu-stack", "-p", pid.c_str(), nullptr);
  ::execlp("gdb", "gdb", "-nx", "-batch", "-p", pid.c_str(), "-ex", "thread apply all bt 40",
           nullptr);
  ::_exit(127);
}

bool is_over(std::uint64_t until_ns) { return run::now().monotonic_ns >= until_ns; }

void run_debugger(pid_t pid, const std::string& output, std::uint64_t until_ns) {
  const pid_t debugger = ::fork();
  if (debugger == 0) debug(std::to_string(pid), output);
  if (debugger < 0) return;
  while (::waitpid(debugger, nullptr, WNOHANG) == 0) {
    ::poll(nullptr, 0, kPollMs);
    if (is_over(until_ns)) ::kill(debugger, SIGKILL);
  }
}

}  // namespace

void write_stacks(const std::string& folder, const std::vector<Process>& processes) {
  if (!run::make_folders(folder).ok()) return;
  const std::uint64_t until_ns = run::now().monotonic_ns + kStacksMs * 1'000'000ULL;
  std::size_t written = 0;
  // Workers stand behind their launchers: what hangs comes first, should the time not suffice.
  for (std::size_t i = processes.size(); i-- > 0;) {
    const Process& process = processes[i];
    if (written++ == kProcessesMax || is_over(until_ns)) return;
    const std::string path = folder + "/" + std::to_string(process.pid) + ".txt";
    const std::string text =
        "process " + whereabouts_text(process) + "\n" + threads_text(process.pid);
    if (!run::write_file(path, text).ok()) return;
    run_debugger(process.pid, path, until_ns);
  }
}

}  // namespace sabot::drill
