// The log sink and the end of the line for failed assertions.
#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/check.hpp"

namespace sabot {
namespace log {
namespace {
std::atomic<int> sink_fd{2};
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void line(std::string_view text) {
  const int saved_errno = errno;
  std::string full = "[sabot] ";
  full.append(text);
  full.push_back('\n');
  // relaxed: a sink set meanwhile may miss a line
  write_all(sink_fd.load(std::memory_order_relaxed), full);
  errno = saved_errno;
}

void set_sink(int fd) { sink_fd.store(fd, std::memory_order_relaxed); }

}  // namespace log

void detail::assertion_failed(const char* condition, const char* file, int line) {
  log::line(std::string("assertion failed: ") + condition + " at " + file + ":" +
            std::to_string(line) + "; this is a defect in Sabot, please report it");
  std::abort();
}

}  // namespace sabot
