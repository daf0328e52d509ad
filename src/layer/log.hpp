// The log layer: one line a call, written when the call is entered, so that a call that never
// returns is seen; a second line only when it returns an error.
//
// Lines go to stderr, or to a file whose name may contain %r (rank), %p (process) and %h (host):
// with %r one file per rank. The rate is limited; what was held back is counted in the next line.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "abi/around.hpp"
#include "abi/names.hpp"
#include "layer/line.hpp"

namespace sabot::layer {

enum class LogLevel : std::uint8_t { kOff, kErrors, kCalls, kAll };  // kAll includes queries

struct LogOptions {
  LogLevel level = LogLevel::kOff;
  std::string file;                    // pattern; empty = stderr
  std::uint64_t lines_per_second = 0;  // 0 = no limit
};

class LogLayer {
 public:
  LogLayer(abi::Api next_api, LogOptions options) : next(next_api), options_(std::move(options)) {}

  abi::Api next;

  template <typename R, typename Next, typename Show, typename Edit>
  R around(abi::Call& call, Next&& forward, Show&& show, Edit&&) {
    entered(call, show);
    if constexpr (std::is_same_v<R, ncclResult_t>) {
      const ncclResult_t result = forward();
      left(call, result);
      return result;
    } else {
      return forward();
    }
  }

  // The two moments of a call, also for one that is executed outside the layers.
  template <typename Show>
  void entered(const abi::Call& call, Show&& show) {
    if (!wants(call.function)) return;
    Line line;
    describe(line, call);
    show(line);
    write(call, line);
  }
  void left(const abi::Call& call, ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) returned(call, result);
  }

  abi::Api api() { return {&abi::Around<LogLayer>::kTable, this}; }

 private:
  static constexpr int kRanksWithFile = 256;

  bool wants(abi::FunctionId function) const {
    if (options_.level == LogLevel::kAll) return true;
    if (options_.level != LogLevel::kCalls) return false;
    const abi::Kind kind = abi::info(function).kind;
    return kind != abi::Kind::query && kind != abi::Kind::param;
  }
  void returned(const abi::Call& call, ncclResult_t result);
  void write(const abi::Call& call, Line& line);
  bool admitted(std::uint64_t& held_back);
  int file_for(int rank);

  LogOptions options_;
  std::mutex mutex_;
  std::uint64_t second_ = 0;  // the second being counted
  std::uint64_t lines_in_second_ = 0;
  std::uint64_t held_back_ = 0;
  std::array<int, kRanksWithFile + 1> files_{};  // descriptor + 1, by rank + 1; 0 = not opened
};

}  // namespace sabot::layer
