// A thread-local text and a process-wide copy of the newest one.
#include "call/last_error.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace sabot::call {
namespace {

constexpr std::size_t kTextMax = 1024;

struct Text {
  char text[kTextMax];
  bool set;
};

// Not initial-exec: static TLS is scarce for libraries that are opened late, and this is no fast path.
thread_local Text own{};
thread_local char served[kTextMax];
std::mutex mutex;
Text newest{};
std::atomic<bool> any{false};

void assign(Text& target, std::string_view text) {
  const std::size_t length = std::min(text.size(), kTextMax - 1);
  std::memcpy(target.text, text.data(), length);
  target.text[length] = '\0';
  target.set = true;
}

}  // namespace

void set_last_error(std::string_view text) {
  assign(own, text);
  const std::lock_guard lock(mutex);
  assign(newest, text);
  any.store(true);
  last_error_texts.fetch_add(1);
}

void clear_last_error() {
  if (!any.load()) return;
  own.set = false;
  const std::lock_guard lock(mutex);
  newest.set = false;
  any.store(false);
}

const char* last_error() {
  if (own.set) return own.text;
  if (!any.load()) return nullptr;
  const std::lock_guard lock(mutex);
  if (!newest.set) return nullptr;
  std::memcpy(served, newest.text, kTextMax);
  return served;
}

}  // namespace sabot::call
