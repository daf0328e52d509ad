// What a rank calls instead of what the application called, so that it disagrees with its peers and
// yet touches no memory that the application did not hand over.
//
// The replacement is a value: the arguments to pass on, and the function if it is another one. It
// exists only if its buffers, by extents_of, fit into the caller's, and if the engine below lets no
// peer write into this rank's buffers by the peer's own idea of their size. Everything else is
// refused with a text. Pure; whether a peer notices is the engine's affair.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "abi/api_table.hpp"
#include "abi/call.hpp"
#include "base/result.hpp"
#include "scenario/act.hpp"

namespace sabot::layer {

// What the caller knows about the engine and the communicator.
struct MismatchSetting {
  bool is_real = false;         // NCCL's own library is below: it compares nothing
  bool shares_process = false;  // another rank of this communicator lives in this process
  bool has_registered = false;  // a buffer is registered with it, or lies in a window of it
  bool is_captured = false;     // the stream is being captured into a graph
};

struct Mismatched {
  abi::FunctionId function{};
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t redop = ncclSum;
  int root = 0;
  std::string text;  // "count 17 instead of 1024"
};

// Precondition: act.kind is kMismatch.
Result<Mismatched> mismatch_of(const scenario::Act& act, const abi::Call& call,
                               const MismatchSetting& setting);

// Makes the call as it was replaced, on the communicator and stream of the application's. The next
// layer sees a Call that says what it is given.
ncclResult_t forward_other(const abi::Api& next, abi::Call& call, const Mismatched& other);

}  // namespace sabot::layer
