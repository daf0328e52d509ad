// Entering, leaving, and the fault's exception.
#include "pytorch/announced.hpp"

#include "pytorch/library.hpp"

namespace sabot::pytorch {

sabot_call_t call_of(const char* function, const void* comm) {
  sabot_call_t call{};
  call.size = sizeof call;
  call.function = function;
  call.comm = comm;
  call.datatype = -1;
  call.redop = -1;
  call.root = -1;
  call.peer = -1;
  return call;
}

Announced::Announced(const sabot_call_t& call, Style style, Place place)
    : call_(call), style_(style), place_(place) {
  decision_.size = sizeof decision_;
  check(library().call_enter(&call_, &decision_), nullptr, Style::kBackendError, place);
  if (decision_.kind == SABOT_DECISION_NONE) [[likely]]
    return;
  if (decision_.kind != SABOT_DECISION_ERROR && decision_.kind != SABOT_DECISION_SKIP &&
      decision_.kind != SABOT_DECISION_DATA) {
    library().call_leave(&call_, ncclInvalidUsage);
    throw_backend_error("sabot: a fault on " + std::string(call.function) + " is of kind " +
                        std::to_string(decision_.kind) +
                        ", which this build of the torch extension cannot carry out; build it "
                        "again with the installed version of Sabot");
  }
  // The library's text lives until this thread enters again, which an execution may do.
  text_ = decision_.text == nullptr ? "" : decision_.text;
}

Announced::~Announced() {
  if (is_open_) library().call_leave(&call_, ncclSystemError);
}

void Announced::leave() {
  is_open_ = false;
  const ncclResult_t result = library().call_leave(&call_, ncclSuccess);
  if (!is_success(result)) [[unlikely]]
    throw_error(result, text_, style_, place_);
}

void Announced::fail(ncclResult_t code) {
  is_open_ = false;
  library().call_leave(&call_, code);
}

}  // namespace sabot::pytorch
