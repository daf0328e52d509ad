// One client of the server: bytes in up to a line, an answer out, and a deadline for either.
//
// A client is either being read or being answered, never both, so that one who does not read is not
// answered at length. Sockets are non-blocking; step() does what can be done now.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.hpp"

namespace sabot::launch::control {

class ClientLine {
 public:
  using Clock = std::chrono::steady_clock;
  using Answerer = std::function<std::string(std::string_view line)>;

  ClientLine(Fd socket, Clock::time_point now);
  int fd() const { return socket_.get(); }
  // POLLIN or POLLOUT.
  short awaited() const;
  Clock::time_point deadline() const { return deadline_; }

  // False: the client is done with, by its own will, after a mistake, or because time is up.
  bool step(const Answerer& answer, Clock::time_point now);
  // Sends this instead of an answer, and closes afterwards.
  void dismiss(std::string text);

 private:
  bool read_some();
  bool write_some();
  void take_line(const Answerer& answer);

  Fd socket_;
  std::string input_;
  std::size_t searched_ = 0;  // of the input: no newline before
  std::string output_;
  bool is_dismissed_ = false;
  bool has_ended_ = false;  // the client sends no more
  Clock::time_point deadline_;
};

}  // namespace sabot::launch::control
