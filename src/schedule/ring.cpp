// Neighbour to neighbour: every message has one writer and one reader, the next rank.
//
// The classical bandwidth-optimal form for links that are point to point. On shared memory it only
// adds waits, so choose() does not take it; it is here for comparison, for simulation and for links
// to come. Reductions pass on partial sums, in ring order from the rank where a part begins, so it
// is not offered where rounds_once() asks for a single rounding.
#include <algorithm>

#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

std::uint64_t wrap(std::int64_t value, int world) {
  const std::int64_t rest = value % world;
  return static_cast<std::uint64_t>(rest < 0 ? rest + world : rest);
}
int next_rank(const Request& request) { return (request.rank + 1) % request.world; }
int previous_rank(const Request& request) {
  return (request.rank + request.world - 1) % request.world;
}

// A piece of this rank's buffers: begin and length, in elements.
struct Piece {
  std::uint64_t begin;
  std::uint64_t length;
};

// Part `index` of a chunk of the vector (all-reduce), or the chunk of block `index` (all others).
Piece piece(const Cursor& at, std::uint64_t index) {
  const std::uint64_t stage = at.iteration;
  if (at.request.collective != Collective::kAllReduce)
    return {index * at.request.count + at.begin(stage), at.length(stage)};
  const auto world = static_cast<std::uint64_t>(at.request.world);
  Step parts;
  parts.extent = at.length(stage);
  parts.part = (parts.extent + world - 1) / world;
  const std::uint64_t begin = std::min(index * parts.part, parts.extent);
  return {at.begin(stage) + begin, parts.length(index)};
}

void reduce_onward(const Cursor& at, std::uint64_t index, bool last, Step& step) {
  const Request& request = at.request;
  const Piece own = piece(at, index);
  reduce_range(step, own.begin, last ? Buffer::kOutput : Buffer::kNone, own.begin, own.length);
  step.sources = bit(previous_rank(request)) | bit(request.rank);
  step.first_source = static_cast<std::int8_t>(previous_rank(request));
  step.finish = last;
}

// Positions: put; p-1 reductions; p-1 takes, each but the last followed by passing it on.
bool emit_all_reduce(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const int world = request.world;
  const auto position = static_cast<int>(at.position);
  const std::uint64_t first = at.iteration * static_cast<std::uint64_t>(2 * world - 2);
  if (position == 0) {
    const Piece own = piece(at, static_cast<std::uint64_t>(request.rank));
    put_range(step, Buffer::kInput, own.begin, own.length);
    step.message = first;
    step.readers = bit(next_rank(request));
    return true;
  }
  if (position < world) {
    const int hop = position - 1;
    reduce_onward(at, wrap(request.rank - hop - 1, world), hop == world - 2, step);
    step.message = first + static_cast<std::uint64_t>(hop);
    step.put_message = step.message + 1;
    step.readers = bit(next_rank(request));
    return true;
  }
  const int hop = (position - world) / 2;
  const Piece part = piece(at, wrap(request.rank - hop, world));
  const std::uint64_t message = first + static_cast<std::uint64_t>(world - 1 + hop);
  if ((position - world) % 2 == 0) {
    get_range(step, previous_rank(request), part.begin, part.length);
    step.message = message;
    return true;
  }
  if (hop == world - 2) return false;
  put_range(step, Buffer::kOutput, part.begin, part.length);
  step.message = message + 1;
  step.readers = bit(next_rank(request));
  return true;
}

bool emit_reduce_scatter(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const int world = request.world;
  const auto position = static_cast<int>(at.position);
  const std::uint64_t first = at.iteration * static_cast<std::uint64_t>(world - 1);
  if (position == 0) {
    const Piece block = piece(at, wrap(request.rank - 1, world));
    put_range(step, Buffer::kInput, block.begin, block.length);
    step.message = first;
    step.readers = bit(next_rank(request));
    return true;
  }
  const int hop = position - 1;
  const bool last = hop == world - 2;
  reduce_onward(at, wrap(request.rank - hop - 2, world), last, step);
  step.message = first + static_cast<std::uint64_t>(hop);
  step.put_message = step.message + 1;
  step.readers = last ? 0 : bit(next_rank(request));
  step.to_offset = at.begin(at.iteration);
  return true;
}

bool emit_all_gather(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const int world = request.world;
  const auto position = static_cast<int>(at.position);
  const std::uint64_t first = at.iteration * static_cast<std::uint64_t>(world - 1);
  const Piece own = piece(at, static_cast<std::uint64_t>(request.rank));
  if (position == 0) {
    copy_range(step, at.begin(at.iteration), own.begin, own.length);
    return true;
  }
  const int hop = (position - 1) / 2;
  step.message = first + static_cast<std::uint64_t>(hop);
  if (position % 2 == 1) {
    const Piece block = piece(at, wrap(request.rank - hop, world));
    const bool mine = hop == 0;
    put_range(step, mine ? Buffer::kInput : Buffer::kOutput,
              mine ? at.begin(at.iteration) : block.begin, block.length);
    step.readers = bit(next_rank(request));
  } else {
    const Piece block = piece(at, wrap(request.rank - hop - 1, world));
    get_range(step, previous_rank(request), block.begin, block.length);
  }
  return true;
}

// A chain from the root, chunk after chunk.
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
      get_range(step, previous_rank(request), begin, length);
    return true;
  }
  if (next_rank(request) == request.root) return false;
  put_range(step, is_root ? Buffer::kInput : Buffer::kOutput, begin, length);
  step.readers = bit(next_rank(request));
  return true;
}

// A chain to the root that begins behind it.
bool emit_reduce(const Cursor& at, Step& step) {
  const Request& request = at.request;
  const std::uint64_t begin = at.begin(at.iteration);
  const std::uint64_t length = at.length(at.iteration);
  const bool is_root = request.rank == request.root;
  step.message = at.iteration;
  if (previous_rank(request) == request.root) {
    put_range(step, Buffer::kInput, begin, length);
    step.readers = bit(next_rank(request));
    return true;
  }
  reduce_range(step, begin, is_root ? Buffer::kOutput : Buffer::kNone, begin, length);
  step.sources = bit(previous_rank(request)) | bit(request.rank);
  step.first_source = static_cast<std::int8_t>(previous_rank(request));
  step.finish = is_root;
  step.put_message = at.iteration;
  step.readers = is_root ? 0 : bit(next_rank(request));
  return true;
}

bool offers(const Request& request) {
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kBroadcast: return true;
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce: return !rounds_once(request.type, request.op);
    default: return false;
  }
}

std::uint64_t chunk_max(const Request& request, std::uint64_t slot_elements) {
  const bool split = request.collective == Collective::kAllReduce;
  return split ? slot_elements * static_cast<std::uint64_t>(request.world) : slot_elements;
}

Shape shape(const Request& request, std::uint64_t stages) {
  const auto world = static_cast<std::uint32_t>(request.world);
  switch (request.collective) {
    case Collective::kAllReduce:
      return {.positions = 3 * world - 2, .messages = stages * (2 * world - 2)};
    case Collective::kReduceScatter: return {.positions = world, .messages = stages * (world - 1)};
    case Collective::kAllGather:
      return {.positions = 2 * world - 1, .messages = stages * (world - 1)};
    case Collective::kBroadcast: return {.positions = 2, .messages = stages};
    default: return {.positions = 1, .messages = stages};
  }
}

bool emit(const Cursor& at, Step& step) {
  switch (at.request.collective) {
    case Collective::kAllReduce: return emit_all_reduce(at, step);
    case Collective::kReduceScatter: return emit_reduce_scatter(at, step);
    case Collective::kAllGather: return emit_all_gather(at, step);
    case Collective::kBroadcast: return emit_broadcast(at, step);
    case Collective::kReduce: return emit_reduce(at, step);
    default: return false;
  }
}

}  // namespace

const Family kRingFamily = {offers, chunk_max, shape, emit};

}  // namespace sabot::schedule
