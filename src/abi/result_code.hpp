// The one place where an error of ours becomes an ncclResult_t.
#pragma once

#include <nccl.h>

#include "base/result.hpp"

namespace sabot::abi {

constexpr ncclResult_t to_result(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return ncclInvalidArgument;
    case Code::kInvalidUsage:
    case Code::kUnsupported: return ncclInvalidUsage;
    case Code::kSystem:
    case Code::kNotFound: return ncclSystemError;
    case Code::kInternal:
    case Code::kAborted: return ncclInternalError;  // NCCL's own answer to a call held by an abort
    case Code::kRemote:
    case Code::kTimeout: return ncclRemoteError;
    case Code::kCuda: return ncclUnhandledCudaError;
    case Code::kInProgress: return ncclInProgress;
  }
  return ncclInternalError;
}

}  // namespace sabot::abi
