// Memory: allocation, registration, windows, suspend.
//
// Registration changes nothing on the host engine: it is checked, remembered and given back.
// Nothing of a communicator lies in GPU memory, so suspending releases none and the statistics are
// zero.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "comm/comm.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

// Handles of buffers and windows: numbers that look like no pointer anybody has.
void* next_handle() {
  static std::atomic<std::uintptr_t> last{0};
  return reinterpret_cast<void*>((last.fetch_add(1) + 1) * 64 + 1);
}

Status check_area(const void* buffer, std::size_t size) {
  if (buffer == nullptr) return Error(Code::kInvalidArgument, "buff is NULL");
  if (size == 0) return Error(Code::kInvalidArgument, "size is 0, must be at least 1");
  return {};
}

Result<CommRef> usable_comm(ncclComm_t handle) {
  CommRef comm = enter(handle);
  if (!comm) return explain_handle(handle);
  SABOT_TRY(comm->usable());
  return comm;
}

}  // namespace

ncclResult_t MemAlloc(void* self, abi::Call*, void** ptr, size_t size) {
  const auto allocate = [&]() -> Status {
    if (ptr == nullptr) return Error(Code::kInvalidArgument, "ptr is NULL");
    *ptr = nullptr;
    if (size == 0) return {};
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = (size + page - 1) / page * page;
    void* memory = bytes < size ? MAP_FAILED
                                : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return Error(Code::kSystem, "no memory for " + std::to_string(size) + " bytes");
    }
    Process& here = process();
    const std::lock_guard<std::mutex> lock(here.memory_mutex);
    here.allocations.emplace(memory, bytes);
    *ptr = memory;
    return {};
  };
  return report(options_of(self), "ncclMemAlloc", allocate());
}

ncclResult_t MemFree(void* self, abi::Call*, void* ptr) {
  const auto release = [&]() -> Status {
    if (ptr == nullptr) return {};
    Process& here = process();
    const std::lock_guard<std::mutex> lock(here.memory_mutex);
    const auto found = here.allocations.find(ptr);
    if (found == here.allocations.end()) {
      return Error(Code::kInvalidArgument,
                   "ptr was not returned by ncclMemAlloc of this process, or is free already");
    }
    ::munmap(found->first, found->second);
    here.allocations.erase(found);
    return {};
  };
  return report(options_of(self), "ncclMemFree", release());
}

ncclResult_t CommRegister(void* self, abi::Call*, const ncclComm_t handle, void* buff, size_t size,
                          void** out) {
  const auto add = [&]() -> Status {
    const CommRef comm = SABOT_TRY(usable_comm(handle));
    SABOT_TRY(check_area(buff, size));
    if (out == nullptr) return Error(Code::kInvalidArgument, "handle is NULL");
    const std::lock_guard<std::mutex> lock(comm->mutex);
    *out = next_handle();
    comm->buffers.emplace(*out, buff);
    return {};
  };
  return report(options_of(self), "ncclCommRegister", add());
}

ncclResult_t CommDeregister(void* self, abi::Call*, const ncclComm_t handle, void* registered) {
  const auto remove = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    const std::lock_guard<std::mutex> lock(comm->mutex);
    if (comm->buffers.erase(registered) != 0) return {};
    return Error(Code::kInvalidArgument,
                 "handle was not returned by ncclCommRegister of this communicator, or is "
                 "deregistered already");
  };
  return report(options_of(self), "ncclCommDeregister", remove());
}

ncclResult_t CommWindowRegister(void* self, abi::Call*, ncclComm_t handle, void* buff, size_t size,
                                ncclWindow_t* win, int winFlags) {
  constexpr int kKnownFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;
  const auto add = [&]() -> Status {
    const CommRef comm = SABOT_TRY(usable_comm(handle));
    SABOT_TRY(check_area(buff, size));
    if (win == nullptr) return Error(Code::kInvalidArgument, "win is NULL");
    if ((winFlags & ~kKnownFlags) != 0) {
      return Error(Code::kInvalidArgument,
                   "winFlags is " + std::to_string(winFlags) +
                       ", must be a combination of NCCL_WIN_COLL_SYMMETRIC (1) and "
                       "NCCL_WIN_STRICT_ORDERING (2)");
    }
    if (reinterpret_cast<std::uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
      return Error(Code::kInvalidArgument,
                   "buff is not aligned to 4096 bytes; allocate it with ncclMemAlloc");
    }
    const std::lock_guard<std::mutex> lock(comm->mutex);
    *win = static_cast<ncclWindow_t>(next_handle());
    comm->windows.emplace(*win, buff);
    return {};
  };
  return report(options_of(self), "ncclCommWindowRegister", add());
}

ncclResult_t CommWindowDeregister(void* self, abi::Call*, ncclComm_t handle, ncclWindow_t win) {
  const auto remove = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    const std::lock_guard<std::mutex> lock(comm->mutex);
    if (comm->windows.erase(win) != 0) return {};
    return Error(Code::kInvalidArgument,
                 "win was not returned by ncclCommWindowRegister of this communicator, or is "
                 "deregistered already");
  };
  return report(options_of(self), "ncclCommWindowDeregister", remove());
}

ncclResult_t WinGetUserPtr(void* self, abi::Call*, ncclComm_t handle, ncclWindow_t win,
                           void** outUserPtr) {
  const auto get = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    if (outUserPtr == nullptr) return Error(Code::kInvalidArgument, "outUserPtr is NULL");
    const std::lock_guard<std::mutex> lock(comm->mutex);
    const auto found = comm->windows.find(win);
    if (found == comm->windows.end()) {
      return Error(Code::kInvalidArgument,
                   "win was not returned by ncclCommWindowRegister of this communicator, or is "
                   "deregistered already");
    }
    *outUserPtr = found->second;
    return {};
  };
  return report(options_of(self), "ncclWinGetUserPtr", get());
}

ncclResult_t CommSuspend(void* self, abi::Call*, ncclComm_t handle, int flags) {
  const auto suspend = [&]() -> Status {
    const CommRef comm = SABOT_TRY(usable_comm(handle));
    if (flags != NCCL_SUSPEND_MEM) {
      return Error(Code::kInvalidArgument,
                   "flags is " + std::to_string(flags) + ", must be NCCL_SUSPEND_MEM (1)");
    }
    Phase ready = Phase::kReady;
    return comm->phase.compare_exchange_strong(ready, Phase::kSuspended) ? Status()
                                                                         : comm->usable();
  };
  return report(options_of(self), "ncclCommSuspend", suspend());
}

ncclResult_t CommResume(void* self, abi::Call*, ncclComm_t handle) {
  const auto resume = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    SABOT_TRY(comm->seated());
    Phase suspended = Phase::kSuspended;
    if (comm->phase.compare_exchange_strong(suspended, Phase::kReady)) return {};
    return Error(Code::kInvalidUsage, "the communicator is not suspended");
  };
  return report(options_of(self), "ncclCommResume", resume());
}

ncclResult_t CommMemStats(void* self, abi::Call*, ncclComm_t handle, ncclCommMemStat_t stat,
                          uint64_t* value) {
  const auto get = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    SABOT_TRY(comm->seated());
    if (value == nullptr) return Error(Code::kInvalidArgument, "value is NULL");
    if (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal) {
      return Error(Code::kInvalidArgument,
                   "stat is " + std::to_string(stat) + ", must be an ncclCommMemStat_t: 0 to 3");
    }
    const bool suspended = comm->phase.load() == Phase::kSuspended;
    *value = stat == ncclStatGpuMemSuspended && suspended ? 1 : 0;
    return {};
  };
  return report(options_of(self), "ncclCommMemStats", get());
}

}  // namespace sabot::comm::slots
