// The C functions of sabot/stream.h.
#include <sabot/stream.h>

#include "comm/report.hpp"
#include "comm/stream.hpp"

using sabot::Code;
using sabot::Error;
using sabot::Result;
using sabot::Status;
using namespace sabot::comm;

#define SABOT_PUBLIC extern "C" __attribute__((visibility("default")))

SABOT_PUBLIC ncclResult_t sabot_stream_create(cudaStream_t* stream) {
  constexpr const char* kName = "sabot_stream_create";
  if (stream == nullptr) {
    return remember(kName, Error(Code::kInvalidArgument, "stream is NULL"));
  }
  Result<StreamRef> made = make_stream();
  if (!made.ok()) return remember(kName, made.error());
  *stream = static_cast<cudaStream_t>(made->handle());
  return ncclSuccess;
}

SABOT_PUBLIC ncclResult_t sabot_stream_synchronize(cudaStream_t stream) {
  if (is_immediate(stream)) return ncclSuccess;
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember("sabot_stream_synchronize", ref.error());
  const Status outcome = (*ref)->synchronize();
  return outcome.ok() ? ncclSuccess : remember("sabot_stream_synchronize", outcome.error());
}

SABOT_PUBLIC ncclResult_t sabot_stream_query(cudaStream_t stream) {
  if (is_immediate(stream)) return ncclSuccess;
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember("sabot_stream_query", ref.error());
  return (*ref)->is_idle() ? ncclSuccess : ncclInProgress;
}

SABOT_PUBLIC ncclResult_t sabot_stream_call(cudaStream_t stream, sabot_stream_fn fn, void* user) {
  constexpr const char* kName = "sabot_stream_call";
  if (fn == nullptr) return remember(kName, Error(Code::kInvalidArgument, "fn is NULL"));
  if (is_immediate(stream)) {
    fn(user, ncclSuccess, "");
    return ncclSuccess;
  }
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember(kName, ref.error());
  Stream::Entry entry;
  entry.call = fn;
  entry.user = user;
  (*ref)->reserve();
  (*ref)->put(std::move(entry));
  return ncclSuccess;
}

SABOT_PUBLIC ncclResult_t sabot_stream_destroy(cudaStream_t stream) {
  constexpr const char* kName = "sabot_stream_destroy";
  if (is_immediate(stream)) {
    return remember(kName, Error(Code::kInvalidArgument, "the null stream cannot be destroyed"));
  }
  Result<StreamRef> ref = enter_stream(stream);
  if (!ref.ok()) return remember(kName, ref.error());
  if (ref->retire(SlotState::kDestroyed)) (*ref)->end();
  return ncclSuccess;
}
