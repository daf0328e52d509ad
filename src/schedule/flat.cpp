// One phase: whoever has something puts it once, whoever needs it takes it straight from there.
//
// The fewest waits possible (one per chunk), which is what counts for small messages and when ranks
// share processors; and, since a slot is read by all readers at memory speed, the least copying for
// everything but reductions over many ranks. Pipelined by one: a chunk is put before the previous
// one is taken, so that a wait meets data that peers put an iteration ago.
#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

bool parts_per_rank(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllToAll ||
         collective == Collective::kScatter;
}

// The block of every rank, as one message of `world` parts.
void put_blocks(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  step.kind = Step::Kind::kPut;
  step.from = Buffer::kInput;
  step.from_offset = at.begin(stage);
  step.stride = request.count;
  step.parts = static_cast<std::uint32_t>(request.world);
  step.part = at.length(stage);
  step.extent = step.part * step.parts;
  step.skip = static_cast<std::int8_t>(request.rank);
  step.readers = others(request);
}

void get_blocks(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  step.kind = Step::Kind::kGet;
  step.sources = others(request);
  step.to = Buffer::kOutput;
  step.to_offset = at.begin(stage);
  step.stride = request.count;
  step.parts = static_cast<std::uint32_t>(request.world);
  step.part = at.length(stage);
  step.extent = step.part * step.parts;
}

void reduce_all(const Cursor& at, std::uint64_t stage, std::uint64_t from_offset, Step& step) {
  reduce_range(step, from_offset, Buffer::kOutput, at.begin(stage), at.length(stage));
  step.sources = all_ranks(at.request.world);
  step.finish = true;
}

bool emit_put(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  const bool is_root = request.rank == request.root;
  step.message = stage;
  switch (request.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll: put_blocks(at, stage, step); return true;
    case Collective::kScatter:
      if (is_root) put_blocks(at, stage, step);
      return is_root;
    case Collective::kAllReduce:
    case Collective::kAllGather: step.readers = others(request); break;
    case Collective::kBroadcast:
      if (!is_root) return false;
      step.readers = others(request);
      break;
    case Collective::kReduce:
    case Collective::kGather:
      if (is_root) return false;
      step.readers = bit(request.root);
      break;
  }
  put_range(step, Buffer::kInput, at.begin(stage), at.length(stage));
  return true;
}

bool emit_take(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  const bool is_root = request.rank == request.root;
  const auto rank = static_cast<std::uint64_t>(request.rank);
  step.message = stage;
  switch (request.collective) {
    case Collective::kAllReduce: reduce_all(at, stage, at.begin(stage), step); return true;
    case Collective::kReduce:
      if (is_root) reduce_all(at, stage, at.begin(stage), step);
      return is_root;
    case Collective::kReduceScatter:
      reduce_all(at, stage, rank * request.count + at.begin(stage), step);
      step.message_offset = rank * at.length(stage);
      return true;
    case Collective::kAllGather: get_blocks(at, stage, step); return true;
    case Collective::kGather:
      if (is_root) get_blocks(at, stage, step);
      return is_root;
    case Collective::kAllToAll:
      get_blocks(at, stage, step);
      step.message_offset = rank * at.length(stage);
      return true;
    case Collective::kBroadcast:
      if (!is_root) get_range(step, request.root, at.begin(stage), at.length(stage));
      return !is_root;
    case Collective::kScatter:
      if (is_root) return false;
      get_range(step, request.root, at.begin(stage), at.length(stage));
      step.message_offset = rank * at.length(stage);
      return true;
  }
  return false;
}

// What a rank keeps for itself needs no message.
bool emit_own(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  const bool is_root = request.rank == request.root;
  const std::uint64_t begin = at.begin(stage);
  const std::uint64_t own = static_cast<std::uint64_t>(request.rank) * request.count + begin;
  const std::uint64_t length = at.length(stage);
  switch (request.collective) {
    case Collective::kAllGather: copy_range(step, begin, own, length); return true;
    case Collective::kAllToAll: copy_range(step, own, own, length); return true;
    case Collective::kBroadcast: copy_range(step, begin, begin, length); return is_root;
    case Collective::kGather: copy_range(step, begin, own, length); return is_root;
    case Collective::kScatter: copy_range(step, own, begin, length); return is_root;
    default: return false;
  }
}

bool offers(const Request&) { return true; }

std::uint64_t chunk_max(const Request& request, std::uint64_t slot_elements) {
  return parts_per_rank(request.collective)
             ? slot_elements / static_cast<std::uint64_t>(request.world)
             : slot_elements;
}

Shape shape(const Request&, std::uint64_t stages) {
  return {.positions = 3, .drain = 1, .messages = stages};
}

bool emit(const Cursor& at, Step& step) {
  switch (at.position) {
    case 0: return at.iteration < at.stages && emit_put(at, at.iteration, step);
    case 1: return at.iteration < at.stages && emit_own(at, at.iteration, step);
    default: return at.iteration > 0 && emit_take(at, at.iteration - 1, step);
  }
}

}  // namespace

const Family kFlatFamily = {offers, chunk_max, shape, emit};

}  // namespace sabot::schedule
