// How many processors this process may use: the number that decides whether a waiting rank may
// spin.
#pragma once

#include <string_view>

namespace sabot::link {

// The processors of the calling thread's affinity mask, but not more than the cgroup's quota of
// processor time allows (rounded up); at least 1.
int allowed_cpus();

// The quota in a cgroup v2 cpu.max file: "150000 100000" → 2, "max 100000" or nonsense → 0 (none).
int parse_cpu_max(std::string_view text);

}  // namespace sabot::link
