// Reads the affinity mask and the quotas of every cgroup above this process.
#include "link/processors.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.hpp"

namespace sabot::link {
namespace {

std::string read_file(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  if (got > 0) text.assign(buffer, static_cast<std::size_t>(got));
  close(fd);
  return text;
}

long number_or(std::string_view text, long otherwise) {
  long value = otherwise;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? value : otherwise;
}

// The tightest quota on the way from this process's group to the root; 0 = none.
int quota_cpus() {
  const std::string groups = read_file("/proc/self/cgroup");
  std::string group = "/";
  for (const std::string_view line : split(groups, '\n'))
    if (line.starts_with("0::")) group = line.substr(3);
  int tightest = 0;
  while (true) {
    const int cpus = parse_cpu_max(read_file("/sys/fs/cgroup" + group + "/cpu.max"));
    if (cpus > 0) tightest = tightest == 0 ? cpus : std::min(tightest, cpus);
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.size() <= 1) return tightest;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

}  // namespace

int parse_cpu_max(std::string_view text) {
  const auto words = split(trim(text), ' ');
  if (words.size() != 2) return 0;
  const long quota = number_or(words[0], 0);
  const long period = number_or(words[1], 0);
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<long>((quota + period - 1) / period, 1 << 20));
}

int allowed_cpus() {
  // Large enough for 8192 processors; the kernel refuses a smaller mask than it needs.
  cpu_set_t set[8];
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(set), set) == 0)
    cpus = std::max(1, CPU_COUNT_S(sizeof(set), set));
  else if (const long online = sysconf(_SC_NPROCESSORS_ONLN); online > 0)
    cpus = static_cast<int>(online);
  const int quota = quota_cpus();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

}  // namespace sabot::link
