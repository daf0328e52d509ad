/* Bytes between ranks, and the failure of all: what a library that builds its own messages over a
 * communicator of the host engine needs besides NCCL's functions.
 *
 * Between two ranks of a communicator lie two channels, one for each direction, and each rank has
 * one to itself. A channel carries bytes in order, as a pipe does; where a message begins and ends
 * is the caller's affair. A rank uses a channel either by these functions or by ncclSend and
 * ncclRecv, not by both.
 *
 * comm must be a communicator of the host engine; one of a real NCCL is refused with
 * ncclInvalidArgument. Unless stated otherwise a function may be called from any thread, never
 * waits, and on failure leaves its text to ncclGetLastError of the calling thread. Nothing here is
 * part of a group, is counted or faulted by a layer, or keeps a pointer after it returned. In a
 * forked child the parent's communicators are refused. C99. */
#ifndef SABOT_EXCHANGE_H_
#define SABOT_EXCHANGE_H_

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts the first *moved of these bytes into the channel to peer (0 to ranks - 1, also this rank):
 * as many as there is room for now, about 1 MiB in all; 0 while there is none. Small pieces are
 * expensive in room: each takes a place of its own, and there are few, so put what belongs together
 * in one call. What was put can be taken by the peer even after this rank destroyed its
 * communicator or ended. One thread at a time for each peer; puts and takes do not disturb each
 * other.
 *
 * ncclRemoteError: the communicator has failed (a peer died, sabot_comm_fail), or this peer has
 * destroyed or aborted its communicator, which concerns this channel only. ncclInternalError: this
 * rank aborted it meanwhile. ncclInvalidUsage: ncclSend has used the channel, ranks called
 * mismatched operations, or the communicator is not in use (finalized, revoked, suspended).
 * ncclInvalidArgument: comm, peer, data or moved is wrong. On failure *moved is 0. */
ncclResult_t sabot_channel_put(ncclComm_t comm, int peer, const void* data, size_t bytes,
                               size_t* moved);

/* Takes up to so many bytes that peer put: *moved of them, 0 while nothing is there. Whoever calls
 * it again and again learns within about 100 ms that the peer's process ended. One thread at a time
 * for each peer. Results as above, with ncclRecv in place of ncclSend; what a peer put before it
 * left is given first, ncclRemoteError after that. */
ncclResult_t sabot_channel_take(ncclComm_t comm, int peer, void* data, size_t bytes, size_t* moved);

/* 1 if bytes from peer can be taken now, else 0, also for wrong arguments and failed communicators.
 * A look at one word: it detects nothing, sabot_channel_take does. Same thread as the takes. */
int sabot_channel_ready(ncclComm_t comm, int peer);

/* The number of the newest collective (1 is the first) that a rank has begun to execute on this
 * communicator; 0 before the first. Works on a failed or revoked communicator too, so it tells who
 * is behind where a collective got stuck. ncclInvalidArgument: comm, rank or number is wrong. */
ncclResult_t sabot_comm_entered(ncclComm_t comm, int rank, uint64_t* number);

/* Declares the communicator failed, on all its ranks: what runs or waits on it ends with
 * ncclRemoteError and this text within milliseconds, what is called later fails at once, and
 * ncclCommGetAsyncError says so on ranks that are not inside a call. Handles stay valid and are
 * destroyed as usual. The first failure of a communicator stands: a later one changes nothing and
 * is ncclSuccess too. culprit is the rank it is about, -1 for none; texts are cut after 1919 bytes.
 * ncclInvalidArgument: comm, culprit or text is wrong. */
ncclResult_t sabot_comm_fail(ncclComm_t comm, int culprit, const char* text);

/* Waiting as the engine does it, for callers that poll: spin for microseconds while every rank has
 * a processor, then give way, then nap, up to 1 ms at a time, so that a long wait costs next to
 * nothing. One for each wait, in the thread that waits; plain memory, nothing to free. */
typedef struct sabot_wait {
  uint64_t opaque[4];
} sabot_wait_t;

/* Before the first poll. comm tells whether its ranks share processors; NULL: assume they do. */
void sabot_wait_begin(sabot_wait_t* wait, ncclComm_t comm);
/* After a poll that found nothing. */
void sabot_wait_pause(sabot_wait_t* wait);
/* After one that found something: the next pause is the first of a new wait. How waits end teaches
 * later ones of this process whether spinning helps. */
void sabot_wait_end(sabot_wait_t* wait);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_EXCHANGE_H_ */
