// One entry into the API by the application, described once for triggers, logs, journals and
// reports.
//
// The boundary fills and numbers a Call before any layer sees it; layers read it and never count.
// Fields that a function does not have keep their "none" value. Everything here is borrowed for the
// duration of the call; comm_label lives as long as the process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/function_id.hpp"

namespace sabot::abi {

// By which way a call came. Groups of one way know nothing of those of another, even in one thread.
enum class Lane : std::uint8_t {
  kProcess,    // to the engine of this process
  kBeside,     // to the host engine beside a real one (sabot/stack.h, host_function)
  kAnnounced,  // executed by somebody else, who told us (sabot/fault.h); never in a group
};
inline constexpr std::size_t kLaneCount = 3;

struct Call {
  FunctionId function{};
  Lane lane = Lane::kProcess;
  const void* comm = nullptr;   // the real handle, or null where the function has none (yet)
  const char* comm_label = "";  // "c0", "c0/s1": the same on every rank and in every run; "" = none
  const char* comm_name = "";   // the name given in ncclConfig_t, "" = none
  int comm_ranks = 0;           // size of the comm, 0 = unknown
  int rank = -1;                // rank in the comm
  int world_rank = -1;          // DESIGN "world rank"; -1 = unknown
  bool has_count = false;       // count, datatype and bytes are meaningful
  std::uint64_t count = 0;      // as passed by the caller
  int datatype = -1;            // ncclDataType_t
  std::uint64_t bytes = 0;      // count × size of datatype; where that is -1, as announced
  int redop = -1;               // ncclRedOp_t; 5 and above: created by the application
  int root = -1;
  int peer = -1;
  const void* stream = nullptr;
  const void* send = nullptr;  // input buffer
  void* recv = nullptr;        // output buffer
  bool in_place = false;       // input and output begin at the same address
  bool nonblocking = false;    // the comm was created with blocking = 0
  bool captured = false;       // the stream is being captured into a CUDA graph
  std::uint64_t group = 0;  // number of this thread's outermost group, 1-based; 0 = not in a group
  std::uint32_t group_position = 0;  // 1-based position within that group
  int group_depth = 0;               // GroupStart calls open on this thread at entry
  std::uint64_t thread = 0;          // kernel thread id
  int attempt = 0;                   // restarts by the launcher so far
  std::uint64_t nth = 0;             // n-th call of this function on this comm, 1-based
  std::uint64_t nth_collective = 0;  // n-th collective on this comm, 1-based; 0 = not a collective
  bool host_memory = false;  // kAnnounced: send and recv are memory of this process, in one piece
  bool injected = false;     // a layer answered with a fault instead of, or after, the engine
  const void* target = nullptr;  // the engine's: which copy of the real library the caller meant
};

}  // namespace sabot::abi
