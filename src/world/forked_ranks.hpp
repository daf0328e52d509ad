// For tests: runs one function per rank in a forked process each, and brings back what they said.
//
// A rank's answer is a string, so that a test compares whole messages. A rank that dies answers
// with the signal. Every child is waited for, with a limit; a stuck one is killed and says so. No
// child starts before all exist: a thread that serves the first could hold the allocator's lock
// while the next is forked, and the address sanitizer of GCC 12 does not release it in the child.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace sabot::world {

class ForkedRanks {
 public:
  using Body = std::function<std::string(int rank)>;

  ForkedRanks(int ranks, const Body& body) {
    std::array<int, 2> gate{-1, -1};
    if (::pipe(gate.data()) != 0) return;
    for (int rank = 0; rank < ranks; ++rank) start(rank, gate, body);
    for (const int end : gate) ::close(end);
  }
  ~ForkedRanks() {
    for (const Child& child : children_) {
      if (child.pid > 0) ::kill(child.pid, SIGKILL);
      if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
    }
  }

  pid_t pid(int rank) const { return children_[static_cast<std::size_t>(rank)].pid; }
  void kill(int rank) const { ::kill(pid(rank), SIGKILL); }

  // The answers, in order of rank.
  std::vector<std::string> answers(int limit_s = 60) {
    std::vector<std::string> all;
    for (Child& child : children_) all.push_back(answer(child, limit_s));
    return all;
  }

 private:
  struct Child {
    pid_t pid = -1;
    Fd pipe;
  };

  void start(int rank, const std::array<int, 2>& gate, const Body& body) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      children_.emplace_back();
      return;
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      await_opening(gate);
      const std::string said = body(rank);
      const ssize_t written = ::write(ends[1], said.data(), said.size());
      ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    children_.push_back({pid, Fd(ends[0])});
  }

  // The gate is open when nobody holds its writing end any more.
  static void await_opening(const std::array<int, 2>& gate) {
    ::close(gate[1]);
    char none = 0;
    while (::read(gate[0], &none, 1) < 0 && errno == EINTR) {
    }
    ::close(gate[0]);
  }

  static std::string answer(Child& child, int limit_s) {
    std::string said;
    if (child.pid < 0) return "[cannot make a pipe]";
    std::array<char, 4096> buffer{};
    for (;;) {
      pollfd entry{child.pipe.get(), POLLIN, 0};
      if (::poll(&entry, 1, limit_s * 1000) <= 0) {
        ::kill(child.pid, SIGKILL);
        said += "[stuck]";
        break;
      }
      const ssize_t got = ::read(child.pipe.get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      said.append(buffer.data(), static_cast<std::size_t>(got));
    }
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    child.pid = -1;
    if (WIFSIGNALED(status)) said += "[signal " + std::to_string(WTERMSIG(status)) + "]";
    return said;
  }

  std::vector<Child> children_;
};

}  // namespace sabot::world
