// The journal: one JSON line for each fault that fired, written before the fault acts.
//
// Each process appends to its own file journal/HOST.PID.jsonl with a single write(2) on an O_APPEND
// descriptor, so that lines of threads do not mix and a SIGKILL right after the call loses nothing.
// The file appears with the first line. Without a run folder the lines go to the caller's sink, if
// any. Thread-safe and lock-free; in a forked child nothing is written until it opens a journal of
// its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/record/append_file.hpp"

namespace sabot::run {

// Everything is borrowed for the duration of append(). Negative ranks, zero numbers and empty texts
// mean "this call has none" and leave the field out.
struct JournalEntry {
  std::string_view scenario;  // its name, or its path
  std::string_view fault;
  std::string_view action;  // "error(SystemError)"
  std::string_view code;    // "ncclSystemError"
  std::string_view phase;   // "before" or "after" the real call
  // Why the firing whose line came before did nothing; then this line is no firing.
  std::string_view refused;
  std::string_view function;
  std::string_view comm;  // label: "c0"
  std::string_view comm_name;
  std::string_view datatype;
  std::string_view redop;
  int comm_ranks = 0;
  int rank = -1;
  int world_rank = -1;
  int root = -1;
  int peer = -1;
  int attempt = 0;
  bool has_count = false;
  bool in_place = false;
  bool captured = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nth = 0;
  std::uint64_t nth_collective = 0;
  std::uint64_t group = 0;
  std::uint32_t group_position = 0;
  std::uint64_t thread = 0;
  std::uint64_t match = 0;  // which call, of those that meet the fault's conditions, this was
  std::uint64_t budget_claim = 0;  // which firing of the budget this was; 0 = no budget
  std::uint64_t budget_limit = 0;
  std::uint64_t injection = 0;  // the fault was armed by the program itself; 0 = by the run
};

// The line without its end, time and process included; for tests and sinks.
std::string to_json_line(const JournalEntry& entry);

class Journal {
 public:
  using Sink = void (*)(std::string_view line, void* context);

  // Before any append(). folder = "" for no file; sink may be null.
  void open(const std::string& folder, const std::string& tag, Sink sink, void* context);
  // An error says that this firing has no proof on disk; the job must go on.
  Status append(const JournalEntry& entry);
  // The same with a line made by to_json_line.
  Status append_line(std::string line);
  // In the child of a fork, async-signal-safe: leaves the parent's file alone for good.
  void after_fork_child() noexcept { file_.after_fork_child(); }

 private:
  AppendFile file_{"journal"};
  Sink sink_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace sabot::run
