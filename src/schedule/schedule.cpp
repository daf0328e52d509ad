// Names, the chooser, and the Program that turns an algorithm's emit() into a sequence of steps.
#include "schedule/schedule.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

constexpr std::string_view kCollectiveNames[kCollectiveCount] = {
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
    "Reduce",    "AllToAll",  "Gather",        "Scatter"};
// Large, since a chunk costs a wait, but small enough that the slots of two ranks stay in the
// cache.
constexpr std::uint64_t kTwoPhaseChunkBytesMin = 128 * 1024;
constexpr std::uint64_t kTwoPhaseChunkBytesMax = 512 * 1024;
constexpr std::uint64_t kMoveChunkBytes = 256 * 1024;

constexpr std::string_view kAlgorithmNames[kAlgorithmCount] = {"local", "flat", "two-phase", "ring",
                                                               "tree"};

bool emit_local(const Cursor& at, Step& step) {
  if (has_reduction(at.request.collective)) {
    reduce_range(step, 0, Buffer::kOutput, 0, at.request.count);
    step.sources = bit(0);
    step.finish = true;
  } else {
    copy_range(step, 0, 0, at.request.count);
  }
  return true;
}

const Family& family_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kLocal: return kLocalFamily;
    case Algorithm::kFlat: return kFlatFamily;
    case Algorithm::kTwoPhase: return kTwoPhaseFamily;
    case Algorithm::kRing: return kRingFamily;
    case Algorithm::kTree: return kTreeFamily;
  }
  return kFlatFamily;
}

// The whole where it fits; else equal chunks near the wanted size, whole cache lines of 64 bytes
// each, so that a message of all parts of a chunk keeps its parts aligned.
Plan cut(Algorithm algorithm, const Request& request, const Limits& limits,
         std::uint64_t wanted_bytes) {
  const std::uint64_t element = bytes_of(request.type);
  const std::uint64_t line = 64 / element;
  const std::uint64_t slot_elements = limits.slot_bytes / element;
  std::uint64_t chunk = family_of(algorithm).chunk_max(request, slot_elements);
  chunk = std::min(chunk, std::max(wanted_bytes / element, line));
  if (request.count <= chunk) return {algorithm, std::max<std::uint64_t>(request.count, 1)};
  chunk = std::max(chunk / line * line, line);
  const std::uint64_t stages = (request.count + chunk - 1) / chunk;
  chunk = (request.count + stages - 1) / stages;
  return {algorithm, (chunk + line - 1) / line * line};
}

}  // namespace

const Family kLocalFamily = {
    [](const Request& request) { return request.world == 1; },
    [](const Request& request, std::uint64_t) { return std::max<std::uint64_t>(request.count, 1); },
    [](const Request&, std::uint64_t) { return Shape{}; }, emit_local};

std::string_view name_of(Collective collective) {
  return kCollectiveNames[static_cast<int>(collective)];
}

std::string_view name_of(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<int>(algorithm)];
}

std::optional<Collective> parse_collective(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != '_' && c != '-') plain.push_back(c);
  for (int i = 0; i < kCollectiveCount; ++i)
    if (equals_ignoring_case(plain, kCollectiveNames[i])) return static_cast<Collective>(i);
  return std::nullopt;
}

bool rounds_once(DataType type, ReduceOp op) {
  const bool narrow = type == DataType::kFloat16 || type == DataType::kBfloat16 ||
                      type == DataType::kFloat8e4m3 || type == DataType::kFloat8e5m2;
  return narrow || op == ReduceOp::kAvg || op == ReduceOp::kPreMulSum;
}

std::uint64_t input_elements(const Request& request) {
  const auto world = static_cast<std::uint64_t>(request.world);
  const bool is_root = request.rank == request.root;
  switch (request.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll: return request.count * world;
    case Collective::kBroadcast: return is_root ? request.count : 0;
    case Collective::kScatter: return is_root ? request.count * world : 0;
    default: return request.count;
  }
}

std::uint64_t output_elements(const Request& request) {
  const auto world = static_cast<std::uint64_t>(request.world);
  const bool is_root = request.rank == request.root;
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll: return request.count * world;
    case Collective::kGather: return is_root ? request.count * world : 0;
    case Collective::kReduce: return is_root ? request.count : 0;
    default: return request.count;
  }
}

std::optional<Plan> plan_for(Algorithm algorithm, const Request& request, const Limits& limits) {
  if (request.world == 1 && algorithm != Algorithm::kLocal) return std::nullopt;
  if (!family_of(algorithm).offers(request)) return std::nullopt;
  return cut(algorithm, request, limits, limits.slot_bytes);
}

Plan choose(const Request& request, const Limits& limits) {
  if (request.world == 1) return cut(Algorithm::kLocal, request, limits, limits.slot_bytes);
  if (request.collective == Collective::kAllReduce &&
      is_one_flat_chunk(request.count, bytes_of(request.type), request.world, limits))
    return {Algorithm::kFlat, std::max<std::uint64_t>(request.count, 1)};
  const std::uint64_t bytes = request.count * bytes_of(request.type);
  if (kTwoPhaseFamily.offers(request) && bytes > flat_bytes_max(request.world))
    return cut(Algorithm::kTwoPhase, request, limits,
               std::clamp(bytes / 2, kTwoPhaseChunkBytesMin, kTwoPhaseChunkBytesMax));
  const bool reduces_all = request.collective == Collective::kAllReduce;
  return cut(Algorithm::kFlat, request, limits, reduces_all ? kFlatChunkBytes : kMoveChunkBytes);
}

Program::Program(const Request& request, const Plan& plan) : request_(request), chunk_(plan.chunk) {
  const Family& family = family_of(plan.algorithm);
  stages_ = request.count == 0 ? 0 : (request.count + chunk_ - 1) / chunk_;
  const Shape shape = family.shape(request, stages_);
  iterations_ = stages_ == 0 ? 0 : stages_ + shape.drain;
  message_count_ = shape.messages;
  positions_ = shape.positions;
  emit_ = family.emit;
}

bool Program::next(Step& step) {
  while (iteration_ < iterations_) {
    step = Step{};
    const Cursor cursor{request_, chunk_, stages_, iteration_, position_};
    const bool emitted = emit_(cursor, step);
    if (++position_ == positions_) {
      position_ = 0;
      ++iteration_;
    }
    if (emitted) return true;
  }
  return false;
}

}  // namespace sabot::schedule
