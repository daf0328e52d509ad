// How a rank gets its seat: meets the others, shares the segment, opens its end.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.hpp"
#include "comm/comm.hpp"
#include "comm/options.hpp"
#include "world/rendezvous.hpp"
#include "world/unique_id.hpp"

namespace sabot::comm::life {

// Where a rank sits, and what may end its waiting early.
struct Place {
  int rank = 0;
  int ranks = 1;
  std::function<Status()> interruption;
};

// All fail on every rank or on none, with texts that name the rank that is the reason.
Result<Seat> meet(const Options& options, const world::UniqueId& id, const Place& place);
Result<Seat> meet_named(const Options& options, const world::WorldName& name, const Place& place);

// All seats of a communicator whose ranks are in this process.
Result<std::vector<Seat>> meet_within_process(int ranks);

// From now on the seat heeds link faults on this communicator. Before its first operation.
void heed_links(Seat& seat, const Options& options, const void* comm);

world::ServeOptions serve_options(const Options& options);

// Tells the ranks that wait at this id that this one will not come.
void report_absence(const Options& options, const world::UniqueId& id, int rank, int ranks,
                    const Error& why);

// InvalidArgument: no ranks, or more than the host engine joins, or a rank out of range.
Status check_place(int rank, int ranks);

}  // namespace sabot::comm::life
