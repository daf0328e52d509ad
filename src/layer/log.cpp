// Where logged lines go, and how many of them.
#include "layer/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/log.hpp"
#include "call/thread_state.hpp"

namespace sabot::layer {
namespace {

std::string expand(const std::string& pattern, int rank) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    std::array<char, 256> host{};
    switch (pattern[++i]) {
      case 'r': out += rank < 0 ? "unknown" : std::to_string(rank); break;
      case 'p': out += std::to_string(::getpid()); break;
      case 'h': ::gethostname(host.data(), host.size() - 1), out += host.data(); break;
      default: out.push_back(pattern[i]);
    }
  }
  return out;
}

}  // namespace

int LogLayer::file_for(int rank) {
  if (options_.file.empty()) return STDERR_FILENO;
  const bool per_rank = options_.file.find("%r") != std::string::npos;
  const int slot = per_rank ? std::clamp(rank, -1, kRanksWithFile - 1) + 1 : 0;
  int& known = files_[static_cast<std::size_t>(slot)];
  if (known == 0) {
    const std::string path = expand(options_.file, per_rank ? slot - 1 : -1);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
      log::line("cannot open the log file " + path + "; logging to stderr instead");
      options_.file.clear();
      return STDERR_FILENO;
    }
    known = fd + 1;
  }
  return known - 1;
}

bool LogLayer::admitted(std::uint64_t& held_back) {
  held_back = 0;
  if (options_.lines_per_second == 0) return true;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const auto second = static_cast<std::uint64_t>(now.tv_sec);
  if (second != second_) {
    second_ = second;
    lines_in_second_ = 0;
    held_back = std::exchange(held_back_, 0);
  }
  if (++lines_in_second_ <= options_.lines_per_second) return true;
  ++held_back_;
  return false;
}

void LogLayer::write(const abi::Call& call, Line& line) {
  const call::KeepErrno keep;
  const std::lock_guard lock(mutex_);
  std::uint64_t held_back = 0;
  if (!admitted(held_back)) return;
  const int fd = file_for(call.rank >= 0 ? call.rank : call.world_rank);
  std::string text;
  if (held_back > 0)
    text = "[sabot] " + std::to_string(held_back) + " lines held back (SABOT_LOG_RATE)\n";
  text.append("[sabot] ").append(line.text()).append("\n");
  log::write_all(fd, text);
}

void LogLayer::returned(const abi::Call& call, ncclResult_t result) {
  if (options_.level == LogLevel::kOff) return;
  Line line;
  describe(line, call);
  line.add(" returned ");
  line.add(abi::result_name(result));
  write(call, line);
}

}  // namespace sabot::layer
