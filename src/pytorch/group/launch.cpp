// The end of an asynchronous operation.
#include "pytorch/group/launch.hpp"

namespace sabot::pytorch {

void Pending::complete(void* raw, ncclResult_t outcome, const char* text) {
  const std::unique_ptr<Pending> self(static_cast<Pending*>(raw));
  self->group->end(self->flight, outcome == ncclSuccess);
  std::exception_ptr failed;
  if (outcome != ncclSuccess) {
    self->group->record_failure();
    failed = self->group->explain(outcome, text, self->flight, self->style, self->place);
  } else if (self->after) {
    try {
      self->after();
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
  }
  self->after = nullptr;  // its tensors go before waiters are told
  self->work->end(failed);
  leave_to_caller(std::move(self->work));
}

void follow(std::unique_ptr<Pending> pending, cudaStream_t stream) {
  Pending* raw = pending.release();
  const ncclResult_t queued = library().stream_call(stream, &Pending::complete, raw);
  if (queued == ncclSuccess) return;
  Pending::complete(raw, queued, library().GetLastError(nullptr));
}

void throw_failed(Group& group, ncclResult_t code, const Flight& flight, Style style, Place place) {
  const std::string last_error = library().GetLastError(group.comm());
  group.record_failure();
  std::rethrow_exception(group.explain(code, last_error, flight, style, place));
}

}  // namespace sabot::pytorch
