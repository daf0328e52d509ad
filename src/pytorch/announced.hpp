// A call that NCCL would get and this module executes itself: messages, operations of a proxy.
//
// Announced to the layers it has the number, the log line, the faults and the journal of NCCL's own
// call. From construction to leave() or fail() the calling thread counts as inside this one call,
// so that what the execution calls meanwhile is not counted as well.
#pragma once

#include <sabot/fault.h>

#include <string>

#include "pytorch/errors.hpp"

namespace sabot::pytorch {

// A call of this function with no further arguments.
sabot_call_t call_of(const char* function, const void* comm);

class Announced {
 public:
  // Numbers the call and lets the faults decide. Throws where the library refuses it, and where it
  // decides what this build cannot carry out; nothing is left open then.
  explicit Announced(const sabot_call_t& call, Style style = Style::kBackendError,
                     Place place = here());
  // Left in any case; as a failure if neither leave() nor fail() was reached.
  ~Announced();
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;

  bool is_to_run() const { return decision_.before == 0; }
  // Something happens in leave(), an exception or a change of data: what is executed has to be
  // complete before that.
  bool has_fired() const { return decision_.kind != SABOT_DECISION_NONE; }

  // The call was executed, or was not to be. Throws the fault's error, if one fired; where a call
  // is left out and no exception comes, its operation is to look complete.
  void leave();
  // Executing it failed, and the caller throws why; the log shows this code.
  void fail(ncclResult_t code);

 private:
  sabot_call_t call_;
  sabot_decision_t decision_{};
  std::string text_;
  Style style_;
  Place place_;
  bool is_open_ = true;
};

}  // namespace sabot::pytorch
