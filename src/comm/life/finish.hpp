// How communicators end: finalize, destroy, abort, revoke; and what polling says meanwhile.
#pragma once

#include "base/result.hpp"
#include "comm/comm.hpp"

namespace sabot::comm::life {

// Finalize in two parts: no more operations from now on; then wait, bounded by the timeout, until
// all that was issued has run and peers have taken what this rank sent.
Status begin_finalize(Comm& comm);
Status end_finalize(Comm& comm);
// The second part on a thread of ours.
Status finalize_behind(const CommRef& comm);

// Ends the handle after what was issued has run; one that is broken or still starting ends at once.
// Fails only if something had to be cut off, and ends it all the same.
Status destroy(CommRef& comm);

// Ends the handle now: calls held in it return with an error. Returns after they left, or after
// kAbortWait_ns. Any thread.
void abort(CommRef& comm);
inline constexpr std::uint64_t kAbortWait_ns = 5'000'000'000;

// Stops all that runs; the handle stays for children and its end.
Status revoke(const CommRef& comm);
// Stops all that runs on a parent, before it is shrunk.
void stop_for_shrink(Comm& comm);
// Waits until no other caller is inside, bounded by kAbortWait_ns.
void await_alone(const CommRef& comm);

// For interruptions: Aborted once the communicator is to be aborted.
Status check_not_aborted(const Comm& comm);

// What ncclCommGetAsyncError says: ok, InProgress or why it is broken.
Status async_state(const Comm& comm);

}  // namespace sabot::comm::life
