// Calls and communicators that this library does not execute: others announce them
// (sabot/fault.h).
//
// Between its two moments a call lies in the opaque part of the caller's sabot_call_t, so that
// announcing allocates nothing. It is numbered by the same boundary and goes through the same
// layers as a call of NCCL; only the way between the moments is the caller's.
#pragma once

#include "base/result.hpp"
#include "sabot/fault.h"
#include "stack/stack.hpp"

namespace sabot::stack::api {

// Errors: kInvalidArgument, kSystem (no engine). Then nothing was opened or entered.
Status open_comm(Stack& stack, const sabot_comm_info_t* info);
Status close_comm(Stack& stack, const void* key);
Status enter_call(Stack& stack, sabot_call_t* call, sabot_decision_t* decision);
// What the application is given; kInvalidUsage: this thread did not enter the call.
Result<ncclResult_t> leave_call(Stack& stack, sabot_call_t* call, ncclResult_t result);

}  // namespace sabot::stack::api
