// What the application of this process was told, as far as a verdict needs it: errors and the lives
// of its communicators. One JSON line each in seen/HOST.PID.jsonl.
//
// The journal says what was broken; this says who noticed, and when, whether or not the error was
// injected. Of equal errors only the first is written: what counts is when it was learned. A
// process that polls or recreates for ever fills at most kLinesMax lines, and lives of comms at
// most half of them, so that they never crowd out an error. Thread-safe and lock-free; nothing is
// written in a forked child, or without a run folder.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/record/append_file.hpp"

namespace sabot::run {

enum class SeenKind : std::uint8_t {
  kError,       // a call returned it
  kAsyncError,  // the application asked and was told
  kCreated,     // a comm, or its creation within a group
  kAborted,     // the application is about to abort a comm
  kRevoked,     // … to revoke it
  kDestroyed,   // … to destroy it
};
inline constexpr int kSeenKindCount = 6;
// "error", "async-error", "created", …
std::string_view word_of(SeenKind kind);

// Everything is borrowed for the duration of note(). Negative ranks, zero numbers and empty texts
// leave the field out.
struct SeenEntry {
  SeenKind kind = SeenKind::kError;
  std::string_view function;
  std::string_view code;  // "ncclRemoteError"
  std::string_view comm;  // label: "c0"
  int rank = -1;
  int world_rank = -1;
  int attempt = 0;
  std::uint64_t nth = 0;
  std::uint64_t thread = 0;
  bool injected = false;
};

class Observation {
 public:
  static constexpr std::size_t kLinesMax = 256;

  // Before any note(). folder = "": nothing is written.
  void open(const std::string& folder, const std::string& tag);
  // An error says that the line is not on disk; the job must go on.
  Status note(const SeenEntry& entry);
  // Async-signal-safe.
  void after_fork_child() noexcept { file_.after_fork_child(); }

 private:
  bool is_first(std::uint64_t key);

  bool is_open_ = false;
  AppendFile file_{"record of what was seen"};
  std::atomic<std::size_t> errors_{0};
  std::atomic<std::size_t> lives_{0};
  // Hashes of the errors written; as many as there may be lines, so that it never is full.
  std::array<std::atomic<std::uint64_t>, kLinesMax> known_{};
};

// The line without its end, time and process included; for tests.
std::string to_json_line(const SeenEntry& entry);

}  // namespace sabot::run
