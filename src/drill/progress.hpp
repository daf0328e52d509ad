// What a person sees while a drill runs: a bar on a terminal, else a line for each case.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "drill/result.hpp"

namespace sabot::drill {

struct ProgressOptions {
  bool is_terminal = false;
  std::size_t columns = 80;
  std::function<void(std::string_view)> write;  // pieces of text, line ends included
};

class Progress {
 public:
  explicit Progress(ProgressOptions options) : options_(std::move(options)) {}

  void say(const std::string& line);
  void begin(std::size_t cases) { total_ = cases; }
  void finished(const Case& one);
  // Draws the bar anew, with the names of what is running.
  void draw(const std::vector<std::string>& running);
  void end();

 private:
  void wipe();

  ProgressOptions options_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::string drawn_;
};

// "[#####     ] 3/6, 1 not as expected, running: a, b", cut to the columns.
std::string bar_text(std::size_t done, std::size_t total, std::size_t failed,
                     const std::vector<std::string>& running, std::size_t columns);

}  // namespace sabot::drill
