// Who this process is, in the names of its files and in its records: host, process, thread, time.
//
// Names of files in a run folder are HOST.PID, with the host's name reduced to harmless characters,
// so that processes of several hosts never meet in one file. Nothing is cached across a fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sabot::run {

// The name of this machine, at most 64 characters of [A-Za-z0-9_.-]; "unknown" where it has none.
std::string host_name();
// "node7.4242".
std::string process_tag();
std::uint64_t thread_id();
// The words of this process's command line, joined by spaces and cut after 4 KiB; "" if unknown.
std::string command_line();
std::string executable_path();

struct Now {
  std::uint64_t epoch_ns;      // CLOCK_REALTIME
  std::uint64_t monotonic_ns;  // CLOCK_MONOTONIC
};
Now now();
// CLOCK_MONOTONIC as of the last timer tick: up to 4 ms behind, for a few ns instead of twenty.
std::uint64_t recent_monotonic_ns();

// Any text as one file name: other characters than [A-Za-z0-9_-] become %XX, so that no two texts
// share a name. Text that would be too long keeps its beginning and gets a hash.
std::string file_name_of(std::string_view text);

// The sentence of an errno, thread-safe: "No space left on device".
std::string errno_text(int error_number);

}  // namespace sabot::run
