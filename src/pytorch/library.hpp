// The Sabot of this process as plain C functions: the host engine under its layers.
//
// This module is compiled on the user's machine, against the user's torch, and is linked to nothing
// of ours. It finds a preloaded library of Sabot, or opens the stand-in whose path Python gives it,
// and takes every function from there by name: "ncclX" goes through the layers, "pncclX" does not.
// Needs no torch.
#pragma once

#include <nccl.h>
#include <sabot/exchange.h>
#include <sabot/fault.h>
#include <sabot/stack.h>
#include <sabot/stream.h>

#include <string>

namespace sabot::pytorch {

// Through the layers: logged, numbered, faulted.
#define SABOT_LAYERED(X)  \
  X(AllGather)            \
  X(AllReduce)            \
  X(AlltoAll)             \
  X(Bcast)                \
  X(Broadcast)            \
  X(CommAbort)            \
  X(CommDestroy)          \
  X(CommInitRankConfig)   \
  X(CommSplit)            \
  X(GetErrorString)       \
  X(GetLastError)         \
  X(GetUniqueId)          \
  X(GetVersion)           \
  X(GroupEnd)             \
  X(GroupStart)           \
  X(Recv)                 \
  X(RedOpCreatePreMulSum) \
  X(RedOpDestroy)         \
  X(Reduce)               \
  X(ReduceScatter)        \
  X(Send)

// Beneath the layers: for what torch would not ask of NCCL, which scenarios must not count.
#define SABOT_BENEATH(X) \
  X(CommAbort)           \
  X(CommDestroy)         \
  X(CommGetAsyncError)   \
  X(CommSplit)           \
  X(GetLastError)

#define SABOT_OWN(X) \
  X(call_enter)      \
  X(call_leave)      \
  X(channel_put)     \
  X(channel_ready)   \
  X(channel_take)    \
  X(comm_close)      \
  X(comm_entered)    \
  X(comm_fail)       \
  X(comm_open)       \
  X(fault_inject)    \
  X(fault_withdraw)  \
  X(stream_call)     \
  X(stream_create)   \
  X(stream_destroy)  \
  X(wait_begin)      \
  X(wait_end)        \
  X(wait_pause)

struct Library {
#define SABOT_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  SABOT_LAYERED(SABOT_MEMBER)
#undef SABOT_MEMBER
  struct Beneath {
#define SABOT_MEMBER(name) decltype(&::nccl##name) name = nullptr;
    SABOT_BENEATH(SABOT_MEMBER)
#undef SABOT_MEMBER
  } beneath;
#define SABOT_MEMBER(name) decltype(&::sabot_##name) name = nullptr;
  SABOT_OWN(SABOT_MEMBER)
#undef SABOT_MEMBER
  std::string version;  // of Sabot
  std::string way;      // "preload" or "stand-in"
};

// Finds the library, once; later calls return what was found. An empty result means success, else
// why there is none. Thread-safe.
std::string open_library(const char* standin_path);

// Precondition: open_library() succeeded.
const Library& library();

}  // namespace sabot::pytorch
