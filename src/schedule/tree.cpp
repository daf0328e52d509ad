// A binary tree from the root: broadcast goes down, reduce comes up, chunk after chunk.
//
// Nobody is read by more than two ranks, so the root's window is no hot spot when many ranks run on
// many processors; the price is a wait per level. Reductions pass on partial sums: see
// rounds_once().
#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

// Ranks counted from the root: the root is node 0, the children of node n are 2n+1 and 2n+2.
int node_of(const Request& request) {
  return (request.rank - request.root + request.world) % request.world;
}
int rank_of(const Request& request, int node) { return (request.root + node) % request.world; }

RankMask children(const Request& request) {
  const int node = node_of(request);
  RankMask mask = 0;
  for (int child = 2 * node + 1; child <= 2 * node + 2 && child < request.world; ++child)
    mask |= bit(rank_of(request, child));
  return mask;
}
int parent(const Request& request) { return rank_of(request, (node_of(request) - 1) / 2); }

bool emit_broadcast(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const std::uint64_t begin = at.begin(at.iteration);
  const std::uint64_t length = at.length(at.iteration);
  const bool is_root = request.rank == request.root;
  step.message = at.iteration;
  if (at.position == 0) {
    if (is_root)
      copy_range(step, begin, begin, length);
    else
      get_range(step, parent(request), begin, length);
    return true;
  }
  step.readers = children(request);
  put_range(step, is_root ? Buffer::kInput : Buffer::kOutput, begin, length);
  return step.readers != 0;
}

bool emit_reduce(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const std::uint64_t begin = at.begin(at.iteration);
  const std::uint64_t length = at.length(at.iteration);
  const bool is_root = request.rank == request.root;
  const RankMask sources = children(request);
  step.message = at.iteration;
  step.put_message = at.iteration;
  step.readers = is_root ? 0 : bit(parent(request));
  if (sources == 0) {
    put_range(step, Buffer::kInput, begin, length);
    return true;
  }
  reduce_range(step, begin, is_root ? Buffer::kOutput : Buffer::kNone, begin, length);
  step.sources = sources | bit(request.rank);
  step.first_source = static_cast<std::int8_t>(request.rank);
  step.finish = is_root;
  return true;
}

bool offers(const Request& request) {
  return request.collective == Collective::kBroadcast ||
         (request.collective == Collective::kReduce && !rounds_once(request.type, request.op));
}

std::uint64_t chunk_max(const Request&, std::uint64_t slot_elements) { return slot_elements; }

Shape shape(const Request&, std::uint64_t stages) { return {.positions = 2, .messages = stages}; }

bool emit(const Cursor& at, Step& step) {
  if (at.request.collective == Collective::kBroadcast) return emit_broadcast(at, step);
  return at.position == 0 && emit_reduce(at, step);
}

}  // namespace

const Family kTreeFamily = {offers, chunk_max, shape, emit};

}  // namespace sabot::schedule
