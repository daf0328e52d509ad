// The one thread-local object of the boundary.
#include "call/thread_state.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace sabot::call {

__attribute__((tls_model("initial-exec"))) thread_local constinit ThreadState current_thread{};

std::uint64_t ask_thread_id() { return static_cast<std::uint64_t>(::syscall(SYS_gettid)); }

}  // namespace sabot::call
