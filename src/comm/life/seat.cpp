// Rank 0 makes the segment and hands it to the others at the rendezvous; ranks confirm only after
// they have opened their end, so a rank that cannot is known to all before anybody computes.
#include "comm/life/seat.hpp"

#include <string>

#include "link/processors.hpp"

namespace sabot::comm::life {
namespace {

using link::Segment;

Result<std::shared_ptr<Segment>> make_segment(int ranks) {
  const auto geometry = link::Geometry::for_ranks(ranks, link::allowed_cpus());
  return std::shared_ptr<Segment>(SABOT_TRY(Segment::create(geometry)));
}

world::JoinRequest request_of(const Options& options, const Place& place) {
  world::JoinRequest request;
  request.rank = place.rank;
  request.ranks = place.ranks;
  request.api_version = static_cast<std::uint32_t>(options.api_version);
  request.timeout_ns = options.timeout_ns;
  request.interruption = place.interruption;
  return request;
}

Status open_end(Seat& seat, std::shared_ptr<Segment> segment, const world::Membership& world) {
  if (segment == nullptr) {
    if (!world.gift().valid()) {
      return Error(Code::kInternal, "rank 0 brought no shared segment");
    }
    segment = SABOT_TRY(Segment::map(world.gift().get()));
  }
  if (segment->ranks() != seat.ranks) {
    return Error(Code::kInternal, "the shared segment is for another number of ranks");
  }
  seat.world = world.name();
  seat.members = world.members();
  seat.liveness = std::make_unique<world::MemberLiveness>(seat.members);
  seat.endpoint = SABOT_TRY(host::Endpoint::open(segment, seat.rank, seat.liveness.get()));
  seat.segment = std::move(segment);
  return {};
}

// Rank 0 brings the segment; the others none.
Result<std::shared_ptr<Segment>> bring_segment(const Place& place) {
  if (place.rank != 0) return std::shared_ptr<Segment>();
  return make_segment(place.ranks);
}

template <typename Join>
Result<Seat> take(const Options& options, const Place& place, std::shared_ptr<Segment> segment,
                  const Join& join) {
  world::JoinRequest request = request_of(options, place);
  if (segment != nullptr) request.gift = segment->descriptor();
  world::Membership membership = SABOT_TRY(join(request));
  Seat seat;
  seat.rank = place.rank;
  seat.ranks = place.ranks;
  const Status opened = open_end(seat, segment, membership);
  SABOT_TRY(membership.confirm(opened));
  seat.segment->close_descriptor();
  return seat;
}

}  // namespace

void heed_links(Seat& seat, const Options& options, const void* comm) {
  if (options.links) seat.endpoint->heed(options.links(comm, seat.rank));
}

Status check_place(int rank, int ranks) {
  if (ranks < 1) {
    return Error(Code::kInvalidArgument,
                 "nranks is " + std::to_string(ranks) + ", must be at least 1");
  }
  if (ranks > link::kRanksMax) {
    return Error(Code::kInvalidArgument, "nranks is " + std::to_string(ranks) +
                                             ", the host engine joins at most " +
                                             std::to_string(link::kRanksMax) + " ranks");
  }
  if (rank < 0 || rank >= ranks) {
    return Error(Code::kInvalidArgument,
                 "rank is " + std::to_string(rank) + ", must be 0 to " + std::to_string(ranks - 1));
  }
  return {};
}

world::ServeOptions serve_options(const Options& options) {
  world::ServeOptions serve;
  serve.interface = options.interface;
  serve.api_version = static_cast<std::uint32_t>(options.api_version);
  serve.timeout_ns = options.timeout_ns;
  return serve;
}

Result<Seat> meet(const Options& options, const world::UniqueId& id, const Place& place) {
  Result<std::shared_ptr<Segment>> segment = bring_segment(place);
  if (!segment.ok()) {
    report_absence(options, id, place.rank, place.ranks, segment.error());
    return std::move(segment).error();
  }
  return take(options, place, *segment,
              [&](const world::JoinRequest& request) { return world::join(id, request); });
}

Result<Seat> meet_named(const Options& options, const world::WorldName& name, const Place& place) {
  std::shared_ptr<Segment> segment = SABOT_TRY(bring_segment(place));
  return take(options, place, std::move(segment),
              [&](const world::JoinRequest& request) { return world::join_named(name, request); });
}

Result<std::vector<Seat>> meet_within_process(int ranks) {
  const std::shared_ptr<Segment> segment = SABOT_TRY(make_segment(ranks));
  segment->close_descriptor();
  const world::Membership membership = SABOT_TRY(world::Membership::within_process(ranks));
  std::vector<Seat> seats(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Seat& seat = seats[static_cast<std::size_t>(rank)];
    seat.rank = rank;
    seat.ranks = ranks;
    SABOT_TRY(open_end(seat, segment, membership));
  }
  return seats;
}

void report_absence(const Options& options, const world::UniqueId& id, int rank, int ranks,
                    const Error& why) {
  Place place;
  place.rank = rank;
  place.ranks = ranks;
  world::report_failure(id, request_of(options, place), why);
}

}  // namespace sabot::comm::life
