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
 * on this stream since the last call, once; ncclGetLastError has its text. */
ncclResult_t sabot_stream_synchronize(cudaStream_t stream);

/* ncclSuccess if nothing is queued or running, ncclInProgress otherwise; never waits, forgets no
 * failure. */
ncclResult_t sabot_stream_query(cudaStream_t stream);

/* Ends the handle. What is queued still runs; this call does not wait for it. */
ncclResult_t sabot_stream_destroy(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_STREAM_H_ */
