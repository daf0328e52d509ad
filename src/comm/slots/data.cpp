// Collectives, send and recv, groups, and reductions of the application.
#include <string>

#include "comm/group.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

using host::Operation;
using schedule::Collective;

DataCall collective(const char* function, Collective which, const void* send, void* recv,
                    std::size_t count, ncclDataType_t datatype) {
  DataCall call;
  call.function = function;
  call.collective = which;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.datatype = datatype;
  return call;
}

DataCall rooted(DataCall call, int root) {
  call.root = root;
  return call;
}
DataCall reducing(DataCall call, ncclRedOp_t op) {
  call.redop = op;
  return call;
}

}  // namespace

ncclResult_t AllReduce(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                       cudaStream_t stream) {
  return enqueue(options_of(self), comm, stream,
                 reducing(collective("ncclAllReduce", Collective::kAllReduce, sendbuff, recvbuff,
                                     count, datatype),
                          op));
}

ncclResult_t Reduce(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                    ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                    cudaStream_t stream) {
  const DataCall call =
      collective("ncclReduce", Collective::kReduce, sendbuff, recvbuff, count, datatype);
  return enqueue(options_of(self), comm, stream, rooted(reducing(call, op), root));
}

ncclResult_t Bcast(void* self, abi::Call*, void* buff, size_t count, ncclDataType_t datatype,
                   int root, ncclComm_t comm, cudaStream_t stream) {
  const DataCall call =
      collective("ncclBcast", Collective::kBroadcast, buff, buff, count, datatype);
  return enqueue(options_of(self), comm, stream, rooted(call, root));
}

ncclResult_t Broadcast(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                       ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  const DataCall call =
      collective("ncclBroadcast", Collective::kBroadcast, sendbuff, recvbuff, count, datatype);
  return enqueue(options_of(self), comm, stream, rooted(call, root));
}

ncclResult_t ReduceScatter(void* self, abi::Call*, const void* sendbuff, void* recvbuff,
                           size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(options_of(self), comm, stream,
                 reducing(collective("ncclReduceScatter", Collective::kReduceScatter, sendbuff,
                                     recvbuff, recvcount, datatype),
                          op));
}

ncclResult_t AllGather(void* self, abi::Call*, const void* sendbuff, void* recvbuff,
                       size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream) {
  return enqueue(
      options_of(self), comm, stream,
      collective("ncclAllGather", Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype));
}

ncclResult_t AlltoAll(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                      ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(
      options_of(self), comm, stream,
      collective("ncclAlltoAll", Collective::kAllToAll, sendbuff, recvbuff, count, datatype));
}

ncclResult_t Gather(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                    ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  const DataCall call =
      collective("ncclGather", Collective::kGather, sendbuff, recvbuff, count, datatype);
  return enqueue(options_of(self), comm, stream, rooted(call, root));
}

ncclResult_t Scatter(void* self, abi::Call*, const void* sendbuff, void* recvbuff, size_t count,
                     ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  const DataCall call =
      collective("ncclScatter", Collective::kScatter, sendbuff, recvbuff, count, datatype);
  return enqueue(options_of(self), comm, stream, rooted(call, root));
}

ncclResult_t Send(void* self, abi::Call*, const void* sendbuff, size_t count,
                  ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
  DataCall call = collective("ncclSend", {}, sendbuff, nullptr, count, datatype);
  call.kind = Operation::Kind::kSend;
  call.peer = peer;
  return enqueue(options_of(self), comm, stream, call);
}

ncclResult_t Recv(void* self, abi::Call*, void* recvbuff, size_t count, ncclDataType_t datatype,
                  int peer, ncclComm_t comm, cudaStream_t stream) {
  DataCall call = collective("ncclRecv", {}, nullptr, recvbuff, count, datatype);
  call.kind = Operation::Kind::kRecv;
  call.peer = peer;
  return enqueue(options_of(self), comm, stream, call);
}

ncclResult_t GroupStart(void*, abi::Call*) {
  group_start();
  return ncclSuccess;
}

ncclResult_t GroupEnd(void* self, abi::Call*) { return group_end(options_of(self)); }

ncclResult_t GroupSimulateEnd(void* self, abi::Call*, ncclSimInfo_t* simInfo) {
  constexpr const char* kName = "ncclGroupSimulateEnd";
  constexpr unsigned kMagic = 0x74685283;
  const ncclSimInfo_t known = NCCL_SIM_INFO_INITIALIZER;
  const Result<float> time = group_simulate_end();
  if (!time.ok()) return report(options_of(self), kName, time.error());
  if (simInfo == nullptr) return ncclSuccess;
  if (simInfo->magic != kMagic || simInfo->size < sizeof known) {
    return report(options_of(self), kName,
                  Error(Code::kInvalidArgument,
                        "simInfo was not initialised; start it with NCCL_SIM_INFO_INITIALIZER"));
  }
  simInfo->estimatedTime = *time;
  return ncclSuccess;
}

ncclResult_t RedOpCreatePreMulSum(void* self, abi::Call*, ncclRedOp_t* op, void* scalar,
                                  ncclDataType_t datatype, ncclScalarResidence_t residence,
                                  ncclComm_t handle) {
  const auto create = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    SABOT_TRY(comm->usable());
    if (op == nullptr) return Error(Code::kInvalidArgument, "op is NULL");
    if (scalar == nullptr) return Error(Code::kInvalidArgument, "scalar is NULL");
    if (datatype < 0 || datatype >= kDataTypeCount) {
      return Error(Code::kInvalidArgument, "datatype is " + std::to_string(datatype) +
                                               ", must be an ncclDataType_t: 0 to 11");
    }
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
      return Error(Code::kInvalidArgument,
                   "residence is " + std::to_string(residence) +
                       ", must be ncclScalarDevice (0) or ncclScalarHostImmediate (1)");
    }
    *op = SABOT_TRY(comm->redops.create(scalar, static_cast<DataType>(datatype),
                                        residence == ncclScalarDevice));
    return {};
  };
  return report(options_of(self), "ncclRedOpCreatePreMulSum", create());
}

ncclResult_t RedOpDestroy(void* self, abi::Call*, ncclRedOp_t op, ncclComm_t handle) {
  const auto destroy = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    return comm->redops.destroy(op);
  };
  return report(options_of(self), "ncclRedOpDestroy", destroy());
}

}  // namespace sabot::comm::slots
