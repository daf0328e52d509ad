// Which arguments a rank must bring follows from the collective and from whether it is the root.
#include "comm/data_call.hpp"

#include <limits>
#include <string>

#include "abi/names.hpp"
#include "base/datatype.hpp"

namespace sabot::comm {
namespace {

using host::Operation;
using schedule::Collective;

bool needs_send(const Comm& comm, const DataCall& call) {
  if (call.kind != Operation::Kind::kCollective) return call.kind == Operation::Kind::kSend;
  const bool from_root =
      call.collective == Collective::kBroadcast || call.collective == Collective::kScatter;
  return !from_root || comm.seat.rank == call.root;
}

bool needs_recv(const Comm& comm, const DataCall& call) {
  if (call.kind != Operation::Kind::kCollective) return call.kind == Operation::Kind::kRecv;
  const bool to_root =
      call.collective == Collective::kReduce || call.collective == Collective::kGather;
  return !to_root || comm.seat.rank == call.root;
}

bool has_root(const DataCall& call) {
  return call.kind == Operation::Kind::kCollective && schedule::has_root(call.collective);
}
bool has_redop(const DataCall& call) {
  return call.kind == Operation::Kind::kCollective && schedule::has_reduction(call.collective);
}

Error wrong(const std::string& argument, const std::string& expected) {
  return Error(Code::kInvalidArgument, argument + ", " + expected);
}

Status check_rank(const char* argument, int value, int ranks) {
  if (value >= 0 && value < ranks) return {};
  return wrong(std::string(argument) + " is " + std::to_string(value),
               "must be a rank of the communicator: 0 to " + std::to_string(ranks - 1));
}

Status check_count(const Comm& comm, const DataCall& call) {
  const std::size_t element = bytes_of(static_cast<DataType>(call.datatype));
  const std::size_t ranks = static_cast<std::size_t>(comm.seat.ranks);
  const std::size_t most = std::numeric_limits<std::int64_t>::max() / element / ranks;
  if (call.count <= most) return {};
  return wrong("count is " + std::to_string(call.count),
               "more elements than an address space holds; was a negative number passed?");
}

Status check_buffers(const Comm& comm, const DataCall& call) {
  if (call.count == 0) return {};
  const std::string suffix = " with a count of " + std::to_string(call.count);
  if (needs_send(comm, call) && call.send == nullptr) {
    return wrong("sendbuff is NULL" + suffix, "must point to host memory on this rank");
  }
  if (needs_recv(comm, call) && call.recv == nullptr) {
    return wrong("recvbuff is NULL" + suffix, "must point to host memory on this rank");
  }
  return {};
}

Status check_redop(const Comm& comm, const DataCall& call, Checked& checked) {
  if (call.redop >= ncclSum && call.redop < ncclNumOps) {
    checked.operation.op = static_cast<ReduceOp>(call.redop);
    return {};
  }
  const UserRedOp user = SABOT_TRY(comm.redops.find(call.redop));
  if (user.type != static_cast<DataType>(call.datatype)) {
    return Error(Code::kInvalidArgument, "op was created for " + std::string(name_of(user.type)) +
                                             ", but datatype is " +
                                             std::string(abi::datatype_name(call.datatype)));
  }
  checked.operation.op = ReduceOp::kPreMulSum;
  checked.premul = user;
  return {};
}

void fill(const DataCall& call, Operation& operation) {
  operation.kind = call.kind;
  operation.collective = call.collective;
  operation.type = static_cast<DataType>(call.datatype);
  operation.root = call.root;
  operation.peer = call.peer;
  operation.input = call.send;
  operation.output = call.recv;
  operation.count = call.count;
}

}  // namespace

Result<Checked> check(const Comm& comm, const DataCall& call) {
  if (call.datatype < 0 || call.datatype >= kDataTypeCount) {
    return wrong("datatype is " + std::to_string(call.datatype),
                 "must be an ncclDataType_t: 0 to " + std::to_string(kDataTypeCount - 1));
  }
  if (has_root(call)) SABOT_TRY(check_rank("root", call.root, comm.seat.ranks));
  if (call.kind != Operation::Kind::kCollective) {
    SABOT_TRY(check_rank("peer", call.peer, comm.seat.ranks));
  }
  SABOT_TRY(check_count(comm, call));
  SABOT_TRY(check_buffers(comm, call));
  Checked checked;
  if (has_redop(call)) SABOT_TRY(check_redop(comm, call, checked));
  fill(call, checked.operation);
  checked.is_nothing = call.kind != Operation::Kind::kCollective && call.count == 0;
  return checked;
}

bool check_quickly(const Comm& comm, const DataCall& call, Operation& operation) {
  const bool plain = static_cast<unsigned>(call.datatype) < kDataTypeCount &&
                     static_cast<unsigned>(call.redop) < ncclNumOps &&
                     static_cast<unsigned>(call.root) < static_cast<unsigned>(comm.seat.ranks) &&
                     call.count <= (std::size_t{1} << 48) && call.send != nullptr &&
                     call.recv != nullptr && call.kind == Operation::Kind::kCollective;
  if (!plain) return false;
  fill(call, operation);
  operation.op = static_cast<ReduceOp>(call.redop);
  return true;
}

}  // namespace sabot::comm
