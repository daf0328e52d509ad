/* Streams of the host engine: an order of operations that run behind the caller's back.
 *
 * On the host engine a cudaStream_t is an order. The null stream (and CUDA's legacy handles 1 and
 * 2) runs an operation at once, in the calling thread, before the call returns; inside a group at
 * the outermost ncclGroupEnd. A stream made here is a thread with a bounded queue: a call returns
 * when its operation is queued and blocks only while the queue is full. Operations of one stream
 * run one after the other; operations of one communicator too, in the order in which they were
 * issued, whatever their streams. A real CUDA stream is refused with ncclInvalidUsage. Buffers must
 * stay valid until the operation has run.
 *
 * All functions may be called from any thread. A stream does not survive fork. C99. */
#ifndef SABOT_STREAM_H_
#define SABOT_STREAM_H_

#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a stream. ncclInvalidArgument: stream is NULL; ncclSystemError: no thread could be started.
 */
ncclResult_t sabot_stream_create(cudaStream_t* stream);

/* Waits until everything queued before this call has run. Returns the first failure of an operation
 * on this stream since this or a sabot_stream_call last took one; ncclGetLastError has its text. */
ncclResult_t sabot_stream_synchronize(cudaStream_t stream);

/* ncclSuccess if nothing is queued or running, ncclInProgress otherwise; never waits, forgets no
 * failure. */
ncclResult_t sabot_stream_query(cudaStream_t stream);

/* Queues a call of fn(user, outcome, text): it runs in the stream's thread after everything queued
 * before, and what is queued later waits for it. outcome is the first failure of an operation on
 * this stream since the last sabot_stream_call or sabot_stream_synchronize took one, and this takes
 * it; ncclSuccess if there is none. text is what ncclGetLastError would say of it, "" on success,
 * valid during the call. With the null stream fn runs at once, in the calling thread, always with
 * ncclSuccess: operations there return their failures themselves. fn must not throw and must not
 * wait for its own stream; it may queue operations on other streams, and end this one's handle.
 * Blocks only while the queue is full. Groups do not hold it back: call it after the outermost
 * ncclGroupEnd. If this fails fn is never called. ncclInvalidArgument: fn is NULL, or the stream is
 * not in use. */
typedef void (*sabot_stream_fn)(void* user, ncclResult_t outcome, const char* text);
ncclResult_t sabot_stream_call(cudaStream_t stream, sabot_stream_fn fn, void* user);

/* Ends the handle. What is queued still runs; this call does not wait for it. */
ncclResult_t sabot_stream_destroy(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_STREAM_H_ */
