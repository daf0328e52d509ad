// At exit: says so in the run folder if this process used NCCL and Sabot never saw a call.
//
// "No effect" without a word is the one result that Sabot must never give. A preload cannot see
// calls through a handle from dlopen, nor into NCCL linked with local symbols; it can see at exit
// that a library was there. Only under a run (SABOT_RUN_FOLDER); a process that has nothing to do
// with CUDA or NCCL costs one walk over its mapped objects (case C20). Reports through the attach
// record, which the launcher judges.
#pragma once

namespace sabot::stack {

void report_bypass() noexcept;

}  // namespace sabot::stack
