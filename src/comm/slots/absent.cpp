// What the host engine does not have: one-sided operations and NCCL's device API.
//
// Both need memory of another rank to be reached by address, by a kernel or a network card. A
// program that asks gets the name of the function and what to use instead, never a wrong answer.
#include <string>

#include "comm/group.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

ncclResult_t absent(void* self, const char* function, const char* instead) {
  return refuse(
      options_of(self), function,
      Error(Code::kUnsupported,
            std::string(function) + " is not implemented by the host engine; " + instead));
}

constexpr const char* kOneSided = "use ncclSend and ncclRecv";
constexpr const char* kDeviceApi =
    "NCCL's device API needs kernels on a GPU: run with the engine 'real'";

}  // namespace

ncclResult_t PutSignal(void* self, abi::Call*, const void*, size_t, ncclDataType_t, int,
                       ncclWindow_t, size_t, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return absent(self, "ncclPutSignal", kOneSided);
}
ncclResult_t Signal(void* self, abi::Call*, int, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return absent(self, "ncclSignal", kOneSided);
}
ncclResult_t WaitSignal(void* self, abi::Call*, int, ncclWaitSignalDesc_t*, ncclComm_t,
                        cudaStream_t) {
  return absent(self, "ncclWaitSignal", kOneSided);
}
ncclResult_t DevCommCreate(void* self, abi::Call*, ncclComm_t, const ncclDevCommRequirements_t*,
                           ncclDevComm_t*) {
  return absent(self, "ncclDevCommCreate", kDeviceApi);
}
ncclResult_t DevCommDestroy(void* self, abi::Call*, ncclComm_t, const ncclDevComm_t*) {
  return absent(self, "ncclDevCommDestroy", kDeviceApi);
}
ncclResult_t GetLsaMultimemDevicePointer(void* self, abi::Call*, ncclWindow_t, size_t, void**) {
  return absent(self, "ncclGetLsaMultimemDevicePointer", kDeviceApi);
}
ncclResult_t GetMultimemDevicePointer(void* self, abi::Call*, ncclWindow_t, size_t,
                                      ncclMultimemHandle_t, void**) {
  return absent(self, "ncclGetMultimemDevicePointer", kDeviceApi);
}
ncclResult_t GetLsaDevicePointer(void* self, abi::Call*, ncclWindow_t, size_t, int, void**) {
  return absent(self, "ncclGetLsaDevicePointer", kDeviceApi);
}
ncclResult_t GetPeerDevicePointer(void* self, abi::Call*, ncclWindow_t, size_t, int, void**) {
  return absent(self, "ncclGetPeerDevicePointer", kDeviceApi);
}
ncclResult_t LsaBarrierCreateRequirement(void* self, abi::Call*, ncclTeam_t, int,
                                         ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*) {
  return absent(self, "ncclLsaBarrierCreateRequirement", kDeviceApi);
}
ncclResult_t GinBarrierCreateRequirement(void* self, abi::Call*, ncclComm_t, ncclTeam_t, int,
                                         ncclGinBarrierHandle_t*, ncclDevResourceRequirements_t*) {
  return absent(self, "ncclGinBarrierCreateRequirement", kDeviceApi);
}
int LLA2ACalcSlots(void* self, abi::Call*, int, int) {
  absent(self, "ncclLLA2ACalcSlots", kDeviceApi);
  return 0;
}
ncclResult_t LLA2ACreateRequirement(void* self, abi::Call*, int, int, ncclLLA2AHandle_t*,
                                    ncclDevResourceRequirements_t*) {
  return absent(self, "ncclLLA2ACreateRequirement", kDeviceApi);
}
ncclResult_t GinOutboxCreateRequirement(void* self, abi::Call*, int, int, ncclGinOutboxHandle_t*,
                                        ncclDevResourceRequirements_t*) {
  return absent(self, "ncclGinOutboxCreateRequirement", kDeviceApi);
}
ncclResult_t GinInboxA2ACreateRequirement(void* self, abi::Call*, ncclTeam_t, int, int,
                                          ncclGinInboxA2AHandle_t*,
                                          ncclDevResourceRequirements_t*) {
  return absent(self, "ncclGinInboxA2ACreateRequirement", kDeviceApi);
}

}  // namespace sabot::comm::slots
