// A signal with its default disposition, an exit code, or abort().
//
// The application's handlers are not asked: a fault is to end the process as the kernel would. The
// first process of a container is spared by the kernel from signals without a handler; there the
// exit status says what the signal would have been.
#include "layer/crash.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

namespace sabot::layer {
namespace {

void raise_undisturbed(int signal) {
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  std::raise(signal);
  if (signal != SIGSTOP) ::_exit(128 + signal);
}

}  // namespace

void crash(const scenario::Act& act) {
  if (act.crash == scenario::CrashKind::kExit) ::_exit(act.crash_value);
  raise_undisturbed(act.crash == scenario::CrashKind::kAbort ? SIGABRT : act.crash_value);
}

}  // namespace sabot::layer
