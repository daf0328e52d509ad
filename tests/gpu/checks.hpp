// A list of checks that print one line each, and clocks.
//
// A check fails by text; the others still run, since device time is dear. Waiting for a word of
// the GPU's is bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace sabot::gpu_test {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kPatience_ns = 5'000 * kMillisecond;

template <typename Condition>
bool comes_true(Condition&& condition, std::uint64_t patience_ns = kPatience_ns) {
  const std::uint64_t deadline = now_ns() + patience_ns;
  while (!condition()) {
    if (now_ns() > deadline) return false;
  }
  return true;
}

// What one check found out.
class Findings {
 public:
  void expect(bool is_so, const std::string& text) {
    if (!is_so) failures_.push_back(text);
  }
  void figure(const char* name, double value, const char* unit) {
    char text[96];
    std::snprintf(text, sizeof text, "%s %.3g %s", name, value, unit);
    figures_ += (figures_.empty() ? "" : ", ") + std::string(text);
  }
  bool print(const char* check) const {
    std::printf("%-4s %-58s %s\n", failures_.empty() ? "ok" : "FAIL", check, figures_.c_str());
    for (const std::string& failure : failures_) std::printf("       %s\n", failure.c_str());
    std::fflush(stdout);
    return failures_.empty();
  }

 private:
  std::vector<std::string> failures_;
  std::string figures_;
};

}  // namespace sabot::gpu_test
