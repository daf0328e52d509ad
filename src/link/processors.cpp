// Reads the affinity mask and the quotas of every cgroup above this process.
#include "link/processors.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
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

}  // namespace

// The tightest quota on the way from this process's group to the root.
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

int parse_cpu_max(std::string_view text) {
  const auto words = split(trim(text), ' ');
  if (words.size() != 2) return 0;
  const long quota = number_or(words[0], 0);
  const long period = number_or(words[1], 0);
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<long>((quota + period - 1) / period, 1 << 20));
}

CpuMask affinity() {
  CpuMask mask{};
  // Larger than what is told: the kernel refuses a set that is smaller than its own.
  cpu_set_t set[8];
  if (sched_getaffinity(0, sizeof(set), set) != 0) return mask;
  for (std::size_t cpu = 0; cpu < kCpuWords * 64; ++cpu)
    if (CPU_ISSET_S(cpu, sizeof(set), set)) mask[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  return mask;
}

int count_cpus(const CpuMask& mask) {
  int count = 0;
  for (const std::uint64_t word : mask) count += std::popcount(word);
  return count;
}

int allowed_cpus() {
  int cpus = count_cpus(affinity());
  if (cpus == 0) cpus = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const int quota = quota_cpus();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

}  // namespace sabot::link
