// One row per function that moves data; everything else follows from the row and the rank.
#include "layer/payload/extents.hpp"

#include <limits>
#include <optional>
#include <string>

#include "abi/names.hpp"

namespace sabot::layer {
namespace {

constexpr std::uint64_t kBytesMax = std::numeric_limits<std::int64_t>::max();

std::string name_of(const Shape& shape) { return abi::info(shape.function).public_name; }

bool depends_on_ranks(Span span) {
  return span == Span::kBlockPerRank || span == Span::kBlockPerRankAtRoot;
}
bool depends_on_root(Span span) {
  return span == Span::kBlockAtRoot || span == Span::kBlockPerRankAtRoot;
}

Status check(const Shape& shape, const Payload& payload) {
  if (!payload.is_any()) return Error(Code::kUnsupported, name_of(shape) + " moves no data");
  if (abi::datatype_bytes(shape.datatype) == 0)
    return Error(Code::kInvalidArgument, name_of(shape) + " was called with data type " +
                                             std::to_string(shape.datatype) +
                                             ", whose size is unknown");
  const bool needs_root = depends_on_root(payload.input) || depends_on_root(payload.output);
  const bool needs_ranks =
      needs_root || depends_on_ranks(payload.input) || depends_on_ranks(payload.output);
  if (needs_ranks && shape.ranks <= 0)
    return Error(Code::kInvalidUsage,
                 name_of(shape) + ": how many ranks the communicator has is unknown");
  if (needs_root && shape.rank < 0)
    return Error(Code::kInvalidUsage,
                 name_of(shape) + ": which rank of the communicator this is, is unknown");
  if (needs_root && (shape.root < 0 || shape.root >= shape.ranks))
    return Error(Code::kInvalidArgument, name_of(shape) + ": root " + std::to_string(shape.root) +
                                             " is no rank of the communicator: 0 to " +
                                             std::to_string(shape.ranks - 1));
  return {};
}

std::uint64_t blocks_of(Span span, const Shape& shape) {
  const auto ranks = static_cast<std::uint64_t>(shape.ranks);
  const std::uint64_t is_root = shape.rank == shape.root ? 1 : 0;
  switch (span) {
    case Span::kNone: return 0;
    case Span::kBlock: return 1;
    case Span::kBlockPerRank: return ranks;
    case Span::kBlockAtRoot: return is_root;
    case Span::kBlockPerRankAtRoot: return is_root * ranks;
  }
  return 0;
}

// Elements, or nothing if they are more bytes than an address space has.
std::optional<std::uint64_t> elements_of(Span span, const Shape& shape) {
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  const bool overflows =
      __builtin_mul_overflow(shape.count, blocks_of(span, shape), &elements) ||
      __builtin_mul_overflow(elements, abi::datatype_bytes(shape.datatype), &bytes);
  if (overflows || bytes > kBytesMax) return std::nullopt;
  return elements;
}

}  // namespace

Payload payload_of(abi::FunctionId function) {
  using Id = abi::FunctionId;
  switch (function) {
    case Id::kAllReduce: return {Span::kBlock, Span::kBlock};
    case Id::kReduce: return {Span::kBlock, Span::kBlockAtRoot};
    case Id::kBroadcast:
    case Id::kBcast: return {Span::kBlockAtRoot, Span::kBlock};
    case Id::kAllGather: return {Span::kBlock, Span::kBlockPerRank};
    case Id::kReduceScatter: return {Span::kBlockPerRank, Span::kBlock};
    case Id::kAlltoAll: return {Span::kBlockPerRank, Span::kBlockPerRank};
    case Id::kGather: return {Span::kBlock, Span::kBlockPerRankAtRoot};
    case Id::kScatter: return {Span::kBlockPerRankAtRoot, Span::kBlock};
    case Id::kSend:
    case Id::kPutSignal: return {Span::kBlock, Span::kNone};
    case Id::kRecv: return {Span::kNone, Span::kBlock};
    default: return {};
  }
}

Shape shape_of(const abi::Call& call) {
  return {call.function, call.count, call.datatype, call.comm_ranks, call.rank, call.root};
}

Result<Extents> extents_of(const Shape& shape) {
  const Payload payload = payload_of(shape.function);
  SABOT_TRY(check(shape, payload));
  const std::optional<std::uint64_t> input = elements_of(payload.input, shape);
  const std::optional<std::uint64_t> output = elements_of(payload.output, shape);
  if (!input || !output)
    return Error(Code::kInvalidArgument, name_of(shape) + ": " + std::to_string(shape.count) +
                                             " elements are more than an address space holds");
  return Extents{*input, *output};
}

}  // namespace sabot::layer
