// A thread-local text and a process-wide copy of the newest one.
#include "call/last_error.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

namespace sabot::call {
namespace {

constexpr std::size_t kTextMax = 1024;

struct Text {
  char text[kTextMax];
  bool set;
};

// On the heap: one initial-exec variable (thread_state.hpp) puts all of a library's thread-local
// storage into the static block, of which a library that is opened late gets no more than about a
// kilobyte.
thread_local std::unique_ptr<Text> own;
thread_local std::unique_ptr<Text> served;
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
  if (own == nullptr) own = std::make_unique<Text>();
  assign(*own, text);
  const std::lock_guard lock(mutex);
  assign(newest, text);
  any.store(true);
  last_error_texts.fetch_add(1);
}

void clear_last_error() {
  if (!any.load()) return;
  if (own != nullptr) own->set = false;
  const std::lock_guard lock(mutex);
  newest.set = false;
  any.store(false);
}

const char* last_error() {
  if (own != nullptr && own->set) return own->text;
  if (!any.load()) return nullptr;
  const std::lock_guard lock(mutex);
  if (!newest.set) return nullptr;
  if (served == nullptr) served = std::make_unique<Text>();
  *served = newest;
  return served->text;
}

const char* take_last_error() {
  const char* text = last_error();
  if (text != nullptr) clear_last_error();
  return text;
}

}  // namespace sabot::call
