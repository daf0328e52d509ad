// Two phases: every rank reduces one part of each chunk, then the parts are gathered.
//
// Each input element is read once by one rank instead of by all, so the work per rank does not grow
// with the world: a flat all-reduce of p ranks reads p² vectors, this one about 2p.
// Software-pipelined by two: in iteration i a rank puts chunk i, reduces its part of chunk i-1 and
// takes the finished parts of chunk i-2, all of which peers put in iteration i-1 or earlier. So an
// iteration waits once, not twice, for the others.
#include <algorithm>

#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

// Parts begin on a cache line of the message, so that ranks do not write to each other's lines.
std::uint64_t part_elements(const Request& request, std::uint64_t length) {
  const auto world = static_cast<std::uint64_t>(request.world);
  const std::uint64_t line = 64 / bytes_of(request.type);
  return ((length + world - 1) / world + line - 1) / line * line;
}

// Numbers follow the order in which a rank puts: chunk 0; then chunk i and the part of chunk i-1.
std::uint64_t chunk_message(std::uint64_t stage) { return stage == 0 ? 0 : 2 * stage - 1; }
std::uint64_t part_message(const Cursor& at, std::uint64_t stage) {
  return stage + 1 == at.stages ? 2 * stage + 1 : 2 * stage + 2;
}

void emit_put(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  step.kind = Step::Kind::kPut;
  step.from = Buffer::kInput;
  step.from_offset = at.begin(stage);
  step.message = chunk_message(stage);
  step.readers = others(request);
  step.parts = static_cast<std::uint32_t>(request.world);
  step.extent = at.length(stage);
  step.part = part_elements(request, step.extent);
  step.stride = step.part;
  step.skip = static_cast<std::int8_t>(request.rank);
}

void emit_reduce(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  step.extent = at.length(stage);
  step.part = part_elements(request, step.extent);
  const std::uint64_t offset =  // of an empty part: the end
      std::min(step.part * static_cast<std::uint64_t>(request.rank), step.extent);
  const std::uint64_t length = step.length(static_cast<std::uint64_t>(request.rank));
  const bool to_all = request.collective == Collective::kAllReduce;
  const bool has_output = to_all || request.rank == request.root;
  reduce_range(step, at.begin(stage) + offset, has_output ? Buffer::kOutput : Buffer::kNone,
               at.begin(stage) + offset, length);
  step.sources = all_ranks(request.world);
  step.message = chunk_message(stage);
  step.message_offset = offset;
  step.put_message = part_message(at, stage);
  step.readers = to_all ? others(request) : has_output ? 0 : bit(request.root);
  step.finish = true;
}

bool emit_get(const Cursor& at, std::uint64_t stage, Step& step) {
  const Request& request = at.request;
  if (request.collective == Collective::kReduce && request.rank != request.root) return false;
  step.kind = Step::Kind::kGet;
  step.sources = others(request);
  step.message = part_message(at, stage);
  step.to = Buffer::kOutput;
  step.to_offset = at.begin(stage);
  step.parts = static_cast<std::uint32_t>(request.world);
  step.extent = at.length(stage);
  step.part = part_elements(request, step.extent);
  step.stride = step.part;
  return true;
}

bool offers(const Request& request) {
  return request.collective == Collective::kAllReduce || request.collective == Collective::kReduce;
}

std::uint64_t chunk_max(const Request&, std::uint64_t slot_elements) { return slot_elements; }

Shape shape(const Request&, std::uint64_t stages) {
  return {.positions = 3, .drain = 2, .messages = 2 * stages};
}

bool emit(const Cursor& at, Step& step) {
  const std::uint64_t i = at.iteration;
  switch (at.position) {
    case 0:
      if (i >= at.stages) return false;
      emit_put(at, i, step);
      return true;
    case 1:
      if (i < 1 || i > at.stages) return false;
      emit_reduce(at, i - 1, step);
      return true;
    default: return i >= 2 && emit_get(at, i - 2, step);
  }
}

}  // namespace

const Family kTwoPhaseFamily = {offers, chunk_max, shape, emit};

}  // namespace sabot::schedule
