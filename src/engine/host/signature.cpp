// Packs, unpacks and checks operations; see signature.hpp.
#include "engine/host/signature.hpp"

#include <string_view>

namespace sabot::host {
namespace {

constexpr std::uint64_t get(int shift, int bits, std::uint64_t word) {
  return word >> shift & ((std::uint64_t{1} << bits) - 1);
}

std::string name_of(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kSend: return "Send";
    case Operation::Kind::kRecv: return "Recv";
    case Operation::Kind::kCollective: break;
  }
  return std::string(schedule::name_of(operation.collective));
}

Error wrong(const Operation& operation, const std::string& what) {
  return Error(Code::kInvalidArgument, name_of(operation) + ": " + what);
}

std::string of_range(const char* what, int value, int world) {
  return std::string(what) + " is " + std::to_string(value) + ", but ranks go from 0 to " +
         std::to_string(world - 1);
}

}  // namespace

std::string describe_signature(std::uint64_t signature) {
  if (is_of_bytes(signature)) return "raw bytes";
  const std::uint64_t code = get(kCollectiveShift, 4, signature);
  const bool exchange = code >= static_cast<std::uint64_t>(schedule::kCollectiveCount);
  const auto collective = static_cast<schedule::Collective>(code);
  std::string text = exchange ? "" : std::string(schedule::name_of(collective)) + " ";
  text += "count=" + std::to_string(signature & kCountMax);
  const std::uint64_t type = get(kTypeShift, 4, signature);
  text += type < kDataTypeCount ? " " + std::string(sabot::name_of(static_cast<DataType>(type)))
                                : " type " + std::to_string(type);
  if (exchange) return text;
  if (schedule::has_reduction(collective))
    text += " " + std::string(sabot::name_of(static_cast<ReduceOp>(get(kOpShift, 3, signature))));
  if (schedule::has_root(collective))
    text += " root=" + std::to_string(get(kRootShift, 6, signature));
  return text;
}

std::string describe(const Operation& operation) {
  if (operation.kind == Operation::Kind::kCollective)
    return describe_signature(signature_of(operation));
  return name_of(operation) + " " + describe_signature(signature_of(operation)) +
         " peer=" + std::to_string(operation.peer);
}

schedule::Request request_of(const Operation& operation, int rank, int world) {
  schedule::Request request;
  request.collective = operation.collective;
  request.type = operation.type;
  request.op = operation.op;
  request.rank = rank;
  request.world = world;
  request.root = schedule::has_root(operation.collective) ? operation.root : 0;
  request.count = operation.count;
  return request;
}

Status check(const Operation& operation, int rank, int world) {
  if (static_cast<int>(operation.type) >= kDataTypeCount)
    return wrong(operation, "data type " + std::to_string(static_cast<int>(operation.type)) +
                                " does not exist");
  const std::uint64_t count_max = kCountMax / 8 / static_cast<std::uint64_t>(world);
  if (operation.count > count_max)
    return wrong(operation, "count " + std::to_string(operation.count) + " is more than " +
                                std::to_string(count_max) + ", the most that is possible");
  if (operation.kind != Operation::Kind::kCollective) {
    if (operation.peer < 0 || operation.peer >= world)
      return wrong(operation, of_range("peer", operation.peer, world));
    const bool missing = operation.kind == Operation::Kind::kSend ? operation.input == nullptr
                                                                  : operation.output == nullptr;
    if (operation.count > 0 && missing) return wrong(operation, "the buffer is null");
    return {};
  }
  if (static_cast<int>(operation.collective) >= schedule::kCollectiveCount)
    return Error(Code::kInvalidArgument, "this collective does not exist");
  if (schedule::has_root(operation.collective) && (operation.root < 0 || operation.root >= world))
    return wrong(operation, of_range("root", operation.root, world));
  if (static_cast<int>(operation.op) >= kReduceOpCount)
    return wrong(operation,
                 "reduction " + std::to_string(static_cast<int>(operation.op)) + " does not exist");
  const schedule::Request request = request_of(operation, rank, world);
  if (schedule::input_elements(request) > 0 && operation.input == nullptr)
    return wrong(operation, "the send buffer is null");
  if (schedule::output_elements(request) > 0 && operation.output == nullptr)
    return wrong(operation, "the receive buffer is null");
  return {};
}

}  // namespace sabot::host
