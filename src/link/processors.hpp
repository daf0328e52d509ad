// How many processors this process may use: the number that decides whether a waiting rank may
// spin.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sabot::link {

// Processors 0 … 1023; those beyond are not told apart.
inline constexpr std::size_t kCpuWords = 16;
using CpuMask = std::array<std::uint64_t, kCpuWords>;

// The processors the calling thread may run on; all zero where that cannot be told.
CpuMask affinity();
int count_cpus(const CpuMask& mask);

// Processors' worth of time that the cgroups of this process allow, rounded up; 0 = no limit.
int quota_cpus();

// The processors of affinity(), but not more than quota_cpus() allows; at least 1.
int allowed_cpus();

// The quota in a cgroup v2 cpu.max file: "150000 100000" → 2, "max 100000" or nonsense → 0 (none).
int parse_cpu_max(std::string_view text);

}  // namespace sabot::link
