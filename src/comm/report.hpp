// From an Error to what a caller of NCCL gets: a result code, and a text for ncclGetLastError.
//
// A thread asks for its own newest text, or for the process's where it has none: watchdogs ask from
// another thread than the one that saw the error.
#pragma once

#include <nccl.h>

#include "base/result.hpp"
#include "comm/options.hpp"

namespace sabot::comm {

// Remembers "FUNCTION: message" and returns its code.
ncclResult_t report(const Options& options, const char* function, const Error& error);
// The same without a line in the log: for polling, which would repeat it.
ncclResult_t remember(const char* function, const Error& error);
// ncclSuccess if ok.
ncclResult_t report(const Options& options, const char* function, const Status& status);

// Valid until this thread asks or fails again; "" if nothing ever failed.
const char* last_error();

// NCCL's own words for a result.
const char* error_string(ncclResult_t result);

}  // namespace sabot::comm
