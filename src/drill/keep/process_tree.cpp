// Walking /proc: what a process is called, who its parent is, where it waits.
#include "drill/keep/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "base/fd.hpp"

namespace sabot::drill {
namespace {

constexpr std::size_t kCommandMax = 120;

// The beginning of a file of /proc.
std::string read_start(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t got = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

// PID (NAME) STATE PPID …: the name may hold anything, so that what counts begins behind the last
// parenthesis. The start time is the 22nd field.
std::optional<Process> read_process(pid_t pid) {
  const std::string text = read_start(folder_of(pid) + "/stat");
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  Process process;
  process.pid = pid;
  unsigned long long started = 0;
  const int fields = std::sscanf(text.c_str() + close + 1,
                                 " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                                 "%*d %*d %*d %llu",
                                 &process.state, &process.parent, &started);
  if (fields != 3) return std::nullopt;
  process.started_ticks = started;
  return process;
}

std::vector<Process> all_processes() {
  std::vector<Process> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir("/proc"), &::closedir);
  if (!entries) return out;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || stop != name.data() + name.size()) continue;
    if (const std::optional<Process> process = read_process(pid)) out.push_back(*process);
  }
  return out;
}

}  // namespace

std::vector<Process> processes_below(pid_t root) {
  std::multimap<pid_t, Process> children;
  for (const Process& process : all_processes()) children.emplace(process.parent, process);
  std::vector<Process> out;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      out.push_back(child->second);
      open.push_back(child->second.pid);
    }
    children.erase(first, last);  // a number that changes hands meanwhile makes no circle
  }
  return out;
}

std::string process_text(pid_t pid) {
  std::string words = read_start(folder_of(pid) + "/cmdline");
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  if (words.empty()) words = read_start(folder_of(pid) + "/comm");
  while (!words.empty() && words.back() == '\n') words.pop_back();
  if (words.size() > kCommandMax) words = words.substr(0, kCommandMax) + "…";
  return std::to_string(pid) + (words.empty() ? "" : " (" + words + ")");
}

std::string whereabouts_text(const Process& process) {
  const std::string folder = folder_of(process.pid);
  std::size_t threads = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir((folder + "/task").c_str()),
                                                  &::closedir);
  if (tasks)
    while (const dirent* entry = ::readdir(tasks.get())) threads += entry->d_name[0] != '.' ? 1 : 0;
  std::string text = process_text(process.pid) + ": " + std::to_string(threads) +
                     (threads == 1 ? " thread" : " threads");
  const std::string place = read_start(folder + "/wchan");
  if (process.state == 'R') return text + ", the first is running";
  if (place.empty() || place == "0") return text + ", the first is waiting";
  return text + ", the first waits in " + place;
}

}  // namespace sabot::drill
