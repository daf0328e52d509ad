// The one thread-local object of the boundary.
#include "call/thread_state.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace sabot::call {
namespace {
__attribute__((tls_model("initial-exec"))) thread_local ThreadState current{};
}

ThreadState& thread_state() {
  if (current.thread == 0) current.thread = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  return current;
}

KeepErrno::KeepErrno() : value_(errno) {}
KeepErrno::~KeepErrno() { errno = value_; }

}  // namespace sabot::call
