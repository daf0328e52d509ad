// Names of the error codes, for messages and journals.
#include "base/result.hpp"

namespace sabot {

const char* to_string(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kInvalidUsage: return "invalid usage";
    case Code::kSystem: return "system error";
    case Code::kInternal: return "internal error";
    case Code::kRemote: return "remote error";
    case Code::kCuda: return "CUDA error";
    case Code::kTimeout: return "timeout";
    case Code::kInProgress: return "in progress";
    case Code::kNotFound: return "not found";
    case Code::kUnsupported: return "unsupported";
    case Code::kAborted: return "aborted";
  }
  return "unknown";
}

}  // namespace sabot
