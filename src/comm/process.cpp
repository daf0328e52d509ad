// The wiped page. Where the kernel cannot wipe (before Linux 4.14), a fork handler does.
#include "comm/process.hpp"

#include <pthread.h>
#include <signal.h>

#include <cstring>

#include "comm/comm.hpp"
#include "comm/stream.hpp"

namespace sabot::comm {
namespace {

struct Page {
  std::atomic<Process*> process;
};

// Survive forks: the ranges of all tables that this process or an ancestor made.
std::atomic<const HandleRange*> comm_ranges{nullptr};
std::atomic<const HandleRange*> stream_ranges{nullptr};
std::atomic<Page*> page{nullptr};
// Keeps what is never freed within sight of a leak checker, which does not look into the page.
std::atomic<const Process*> newest{nullptr};

// Where not even one page can be mapped: works, but a forked child shares the parent's idea of it.
Page unwiped{};

void forget_after_fork() { page.load()->process.store(nullptr); }

Page* make_page() {
  const std::size_t bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Page* fresh = memory == MAP_FAILED ? &unwiped : new (memory) Page{};
  const bool wiped = fresh != &unwiped && ::madvise(memory, bytes, MADV_WIPEONFORK) == 0;
  Page* expected = nullptr;
  if (!page.compare_exchange_strong(expected, fresh)) {
    if (fresh != &unwiped) ::munmap(memory, bytes);
    return expected;
  }
  if (!wiped) ::pthread_atfork(nullptr, nullptr, forget_after_fork);
  return fresh;
}

Process& make_process(Page& in) {
  auto fresh = std::make_unique<Process>(comm_ranges, stream_ranges);
  Process* expected = nullptr;
  if (!in.process.compare_exchange_strong(expected, fresh.get())) return *expected;
  fresh->ancestor = newest.exchange(fresh.get());
  return *fresh.release();
}

bool is_inherited(const std::atomic<const HandleRange*>& ranges, const void* handle) {
  const pid_t pid = ::getpid();
  for (const HandleRange* range = ranges.load(); range != nullptr; range = range->next) {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(handle) - range->base;
    if (offset < range->bytes) return range->owner != pid;
  }
  return false;
}

struct Start {
  void (*body)(void*);
  void* argument;
};

void* run_start(void* raw) {
  const std::unique_ptr<Start> start(static_cast<Start*>(raw));
  start->body(start->argument);
  return nullptr;
}

}  // namespace

Process& process() {
  Page* const known = page.load();
  Page& here = known != nullptr ? *known : *make_page();
  Process* const found = here.process.load();
  return found != nullptr ? *found : make_process(here);
}

bool is_inherited_comm(const void* handle) { return is_inherited(comm_ranges, handle); }
bool is_inherited_stream(const void* handle) { return is_inherited(stream_ranges, handle); }

Status spawn(const char* purpose, void (*body)(void*), void* argument) {
  auto start = std::make_unique<Start>(Start{body, argument});
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int outcome = ::pthread_create(&thread, nullptr, run_start, start.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (outcome != 0) {
    return Error(Code::kSystem,
                 std::string("starting a thread for ") + purpose + ": " + std::strerror(outcome));
  }
  start.release();  // NOLINT: the thread owns it now
  ::pthread_detach(thread);
  return {};
}

}  // namespace sabot::comm
