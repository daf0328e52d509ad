// Reading and writing whole small files, with every way to go wrong named.
//
// A file that people hand us is looked at before it is read: a directory, a device, an empty, a
// binary or an oversized file is refused by a sentence, and of a 100 MB file nothing is read. A
// pipe is read up to the limit within a bounded time. Writing goes through a temporary name and
// rename(2), so that a reader never sees half a record. Nothing throws; errno is free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace sabot::run {

inline constexpr std::uint64_t kScenarioBytesMax = 1024 * 1024;
inline constexpr int kPipeWaitMs = 10'000;

struct ReadLimits {
  std::uint64_t bytes_max = kScenarioBytesMax;
  int wait_ms = kPipeWaitMs;  // of all waiting for a pipe together
  bool may_be_empty = false;
};

// what is the word for messages: "scenario". kNotFound for a missing file, with the nearest name of
// its folder; kInvalidArgument for one of the wrong kind; kSystem where the system refuses.
Result<std::string> read_text_file(const std::string& what, const std::string& path,
                                   const ReadLimits& limits = {});

// Replaces or creates the file.
Status write_file(const std::string& path, std::string_view content);

// Creates the file or leaves an existing one alone; true if it was created.
Result<bool> create_file_once(const std::string& path, std::string_view content);

// mkdir -p, mode 0777 minus umask.
Status make_folders(const std::string& path);

}  // namespace sabot::run
