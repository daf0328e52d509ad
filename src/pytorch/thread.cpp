// A POSIX thread that starts detached, with all signals blocked.
#include "pytorch/thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <utility>

namespace sabot::pytorch {
namespace {

struct Start {
  const char* name;
  std::function<void()> body;
};

void* run(void* raw) {
  const std::unique_ptr<Start> start(static_cast<Start*>(raw));
  ::pthread_setname_np(::pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

bool start_thread(const char* name, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{name, std::move(body)});
  pthread_attr_t detached;
  ::pthread_attr_init(&detached);
  ::pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool started = ::pthread_create(&thread, &detached, run, start.get()) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&detached);
  if (started) start.release();  // NOLINT: the thread owns it now
  return started;
}

}  // namespace sabot::pytorch
