/* sabot/stream.h and nccl.h as a C99 program sees them; run by stream_test.cpp. */
#include <sabot/stream.h>
#include <stddef.h>

const char* sabot_stream_c_test(void);

static void count(void* user, ncclResult_t outcome, const char* text) {
  if (outcome == ncclSuccess && text[0] == '\0') ++*(int*)user;
}

/* NULL, or what is wrong. */
const char* sabot_stream_c_test(void) {
  cudaStream_t stream = NULL;
  int calls = 0;
  if (sabot_stream_create(NULL) != ncclInvalidArgument) return "NULL was accepted";
  if (sabot_stream_create(&stream) != ncclSuccess || stream == NULL) return "no stream";
  if (sabot_stream_query(stream) != ncclSuccess) return "a new stream is busy";
  if (sabot_stream_synchronize(stream) != ncclSuccess) return "a new stream has failed";
  if (sabot_stream_call(stream, count, &calls) != ncclSuccess) return "no call";
  if (sabot_stream_synchronize(stream) != ncclSuccess || calls != 1) return "not called";
  if (sabot_stream_destroy(stream) != ncclSuccess) return "cannot be destroyed";
  if (sabot_stream_destroy(stream) != ncclInvalidArgument) return "was destroyed twice";
  return NULL;
}
