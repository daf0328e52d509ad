// Texts of errors, per thread and per process; fixed buffers, so that reporting needs no memory.
#include "comm/report.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "abi/result_code.hpp"
#include "base/log.hpp"
#include "comm/process.hpp"

namespace sabot::comm {
namespace {

constexpr std::size_t kTextBytes = 2048;

struct ThreadText {
  std::array<char, kTextBytes> chars;
  bool is_set;
};

// On the heap: thread-local storage of a library that is opened late is scarce
// (call/thread_state.hpp).
ThreadText& thread_text() {
  thread_local std::unique_ptr<ThreadText> text;
  if (text == nullptr) text = std::make_unique<ThreadText>();
  return *text;
}

void set(std::array<char, kTextBytes>& chars, std::string_view text) {
  const std::size_t bytes = std::min(text.size(), kTextBytes - 1);
  std::memcpy(chars.data(), text.data(), bytes);
  chars[bytes] = '\0';
}

}  // namespace

ncclResult_t remember(const char* function, const Error& error) {
  // What is not there at all reads as a sentence about the function.
  const bool absent = error.code() == Code::kUnsupported;
  std::string text = std::string(function) + (absent ? " " : ": ") + error.message();
  set(thread_text().chars, text);
  thread_text().is_set = true;
  Process& here = process();
  const std::lock_guard<std::mutex> lock(here.error_mutex);
  here.last_error = std::move(text);
  return abi::to_result(error.code());
}

ncclResult_t report(const Options& options, const char* function, const Error& error) {
  const ncclResult_t result = remember(function, error);
  if (options.verbosity >= Verbosity::kWarn)
    log::line("WARN " + std::string(thread_text().chars.data()));
  return result;
}

ncclResult_t report(const Options& options, const char* function, const Status& status) {
  return status.ok() ? ncclSuccess : report(options, function, status.error());
}

const char* last_error() {
  if (!thread_text().is_set) {
    Process& here = process();
    const std::lock_guard<std::mutex> lock(here.error_mutex);
    set(thread_text().chars, here.last_error);
  }
  return thread_text().chars.data();
}

const char* error_string(ncclResult_t result) {
  switch (static_cast<int>(result)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case 8: return "timeout";  // ncclTimeout, since 2.30.3
    default: return "unknown result code";
  }
}

}  // namespace sabot::comm
