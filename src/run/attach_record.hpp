// attach/HOST.PID.json: what one process found when Sabot woke up in it, and why.
//
// Written once at the first call (attached), or at exit by a process that used CUDA or an NCCL
// which no call ever reached through us (not attached, with the reason). It answers "which library,
// by which way, and why not the other one" without a debugger. The file is replaced as a whole, so
// it may be written again when more is known, for instance the rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace sabot::run {

struct Candidate {
  std::string path;
  std::string reason;  // why it was not taken
};

struct AttachRecord {
  bool attached = true;
  std::string way;           // "preload", "stand-in", "audit", "backend", "proxy"
  std::string engine;        // "real", "host"
  std::string reason;        // why this engine and library, or why nothing was attached
  std::string real_path;     // the library mapped, "" = none
  std::string real_version;  // "2.28.9", "" = none or unknown
  std::vector<Candidate> rejected;
  std::vector<std::string> armed;  // names of the faults armed in this process
  int rank = -1;                   // world rank, -1 = unknown
  int attempt = 0;
  std::string launcher;  // HOST.PID of the sabot run that started it, "" = none

  // Filled by write_attach_record, read back by read_attach_records.
  std::string host;
  std::int64_t pid = 0;
  std::int64_t parent_pid = 0;
  std::uint64_t started_ns = 0;  // when the record was written, CLOCK_REALTIME
  std::string executable;
  std::string command_line;
};

// tag is the process's HOST.PID, or another name that is its own.
Status write_attach_record(const std::string& run_folder, const std::string& tag,
                           const AttachRecord& record);

}  // namespace sabot::run
