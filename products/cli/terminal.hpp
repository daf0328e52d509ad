// What the command line says to a person: to stdout what was asked for, to stderr what went wrong.
//
// Colours only where the stream is a terminal, TERM is not dumb and NO_COLOR is not set.
#pragma once

#include <string>
#include <string_view>

namespace sabot::cli {

// Bad words, bad input: nothing was started.
inline constexpr int kStatusUsage = 2;

void print_out(std::string_view text);
// With a newline behind it.
void print_error(std::string_view text);

class Paint {
 public:
  explicit Paint(int fd);
  std::string bold(std::string_view text) const { return wrap("\033[1m", text); }
  std::string green(std::string_view text) const { return wrap("\033[32m", text); }
  std::string red(std::string_view text) const { return wrap("\033[31m", text); }
  std::string dim(std::string_view text) const { return wrap("\033[2m", text); }

 private:
  std::string wrap(const char* code, std::string_view text) const;
  bool coloured_;
};

}  // namespace sabot::cli
