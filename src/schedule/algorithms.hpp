// How an algorithm is written: as a pipeline over chunks, one function from (iteration, position)
// to step.
//
// An iteration has a fixed number of positions; emit() fills the step at a position or says that
// this rank has none there. Software pipelining is plain arithmetic in emit(): position 1 of
// iteration i may concern chunk i-1. Program turns this into a sequence; nothing else sees this
// header.
#pragma once

#include <cstdint>

#include "schedule/schedule.hpp"

namespace sabot::schedule {

// Where a Program stands, and the request it serves.
struct Cursor {
  const Request& request;
  std::uint64_t chunk;
  std::uint64_t stages;
  std::uint64_t iteration;
  std::uint32_t position;

  std::uint64_t begin(std::uint64_t stage) const { return stage * chunk; }
  std::uint64_t length(std::uint64_t stage) const {
    const std::uint64_t rest = request.count - stage * chunk;
    return rest < chunk ? rest : chunk;
  }
};

struct Shape {
  std::uint32_t positions = 1;  // steps per iteration at most
  std::uint32_t drain = 0;      // iterations after the last chunk began
  std::uint64_t messages = 0;   // numbers used by a program of this many stages
};

struct Family {
  bool (*offers)(const Request& request);
  // The largest chunk whose messages fit into slots of so many elements.
  std::uint64_t (*chunk_max)(const Request& request, std::uint64_t slot_elements);
  Shape (*shape)(const Request& request, std::uint64_t stages);
  bool (*emit)(const Cursor& cursor, Step& step);
};

extern const Family kLocalFamily;
extern const Family kFlatFamily;
extern const Family kTwoPhaseFamily;
extern const Family kRingFamily;
extern const Family kTreeFamily;

constexpr RankMask bit(int rank) { return RankMask{1} << rank; }
constexpr RankMask all_ranks(int world) {
  return world >= kRanksMax ? ~RankMask{0} : bit(world) - 1;
}
constexpr RankMask others(const Request& request) {
  return all_ranks(request.world) & ~bit(request.rank);
}

// Steps about one contiguous piece.
inline void one_part(Step& step, std::uint64_t elements) {
  step.parts = 1;
  step.part = elements;
  step.extent = elements;
}

inline void put_range(Step& step, Buffer from, std::uint64_t offset, std::uint64_t elements) {
  step.kind = Step::Kind::kPut;
  step.from = from;
  step.from_offset = offset;
  one_part(step, elements);
}

inline void get_range(Step& step, int source, std::uint64_t offset, std::uint64_t elements) {
  step.kind = Step::Kind::kGet;
  step.sources = bit(source);
  step.to = Buffer::kOutput;
  step.to_offset = offset;
  one_part(step, elements);
}

inline void copy_range(Step& step, std::uint64_t from_offset, std::uint64_t to_offset,
                       std::uint64_t elements) {
  step.kind = Step::Kind::kCopy;
  step.from = Buffer::kInput;
  step.from_offset = from_offset;
  step.to = Buffer::kOutput;
  step.to_offset = to_offset;
  one_part(step, elements);
}

inline void reduce_range(Step& step, std::uint64_t from_offset, Buffer to, std::uint64_t to_offset,
                         std::uint64_t elements) {
  step.kind = Step::Kind::kReduce;
  step.from = Buffer::kInput;
  step.from_offset = from_offset;
  step.to = to;
  step.to_offset = to_offset;
  one_part(step, elements);
}

}  // namespace sabot::schedule
