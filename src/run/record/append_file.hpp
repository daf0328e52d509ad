// A file of one process to which whole lines are added, each by a single write(2).
//
// O_APPEND and one write keep lines of threads apart, and a SIGKILL right after the call loses
// nothing. The file and its folder appear with the first line. Thread-safe and lock-free; in a
// forked child nothing is written.
#pragma once

#include <atomic>
#include <string>

#include "base/result.hpp"

namespace sabot::run {

class AppendFile {
 public:
  // what is the word for messages: "journal".
  explicit AppendFile(const char* what) : what_(what) {}
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Before any append(). path = "": lines are dropped.
  void open(std::string path);
  // An error says that this line is not on disk.
  Status append(std::string line);
  // Whether this process may write: it is the one that called open().
  bool is_owner() const;
  // In the child of a fork, async-signal-safe: leaves the parent's file alone for good.
  void after_fork_child() noexcept;

 private:
  Result<int> descriptor();

  const char* what_;
  std::string path_;
  std::atomic<int> fd_{-1};
  std::atomic<int> owner_pid_{0};
};

}  // namespace sabot::run
