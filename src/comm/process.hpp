// All state that the host engine keeps for a process, found anew after a fork.
//
// The pointer to it stands in a page that the kernel wipes in a forked child (MADV_WIPEONFORK). So
// a child starts with empty tables and unlocked mutexes by itself, whatever its parent's threads
// held at that moment, and recognises its parent's handles by their range. Nothing is allocated
// before the first use. Never destroyed: exit handlers of the program may still call in.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "comm/slot_table.hpp"

namespace sabot::comm {

class Comm;
class Stream;

struct Process {
  explicit Process(std::atomic<const HandleRange*>& comm_ranges,
                   std::atomic<const HandleRange*>& stream_ranges)
      : comms(comm_ranges), streams(stream_ranges) {}

  const Process* ancestor = nullptr;  // of the process that forked this one; kept, never used

  SlotTable<Comm> comms;
  SlotTable<Stream> streams;

  std::mutex issue_mutex;  // held while a group takes its turns and enters its streams

  std::mutex memory_mutex;
  std::map<void*, std::size_t> allocations;  // of ncclMemAlloc

  std::mutex error_mutex;
  std::string last_error;  // the newest of any thread
};

// The state of this process; made at the first call, and again by the first call in a forked child.
Process& process();

// Whether a handle was made by an ancestor of this process, before the fork.
bool is_inherited_comm(const void* handle);
bool is_inherited_stream(const void* handle);

// A thread of ours: all signals blocked, detached. body must not throw. SystemError if there is
// none.
Status spawn(const char* purpose, void (*body)(void*), void* argument);

}  // namespace sabot::comm
