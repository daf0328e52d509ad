// What it means that a communicator works, for tests that are about how it came to be.
#pragma once

#include "world.hpp"

namespace sabot::conformance {

// Its ranks are who they say and their collectives are exact: each contributes rank + 1.
Verdict works(ncclComm_t comm, int rank, int ranks, Stream stream);

// It says itself that this is its rank and size.
Verdict has_shape(ncclComm_t comm, int rank, int ranks);

// Checks a communicator that the test made, then destroys it.
Verdict check_child(ncclComm_t child, int rank, int ranks, Stream stream);

// Polls a non-blocking communicator until it is no longer busy; the test's deadline bounds it.
ncclResult_t settle(ncclComm_t comm, ncclResult_t result);

}  // namespace sabot::conformance
