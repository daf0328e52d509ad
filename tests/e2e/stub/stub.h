/* A stand-in for the vendor's library in tests and benchmarks: every function, no GPU, no
 * transport.
 *
 * It behaves where a wrapper could go wrong: communicators are checked, so that a handle of another
 * copy is refused; group depth is per thread and per copy; creation inside a group fills the handle
 * at GroupEnd; non-blocking communicators answer ncclInProgress a few times; CommDestroy calls
 * public names of its own from this thread and from one of its own; Bcast goes through the public
 * Broadcast. Collectives succeed and move nothing. At exit one JSON line with the counts of calls
 * is appended to the file that STUB_REPORT names. generate_stub.py makes the exported functions;
 * stub.c says what they do.
 */
#ifndef STUB_H_
#define STUB_H_

#include <nccl.h>
#include <sabot/nccl_device_host.h>

#define STUB_EXPORT __attribute__((visibility("default")))
#define STUB_COUNT(index) __atomic_fetch_add(&stub_counts[index], 1, __ATOMIC_RELAXED)

extern const int stub_version_code;
extern const char* const stub_version_text;
extern const int stub_function_count;
extern const char* const stub_function_names[];
extern unsigned long stub_counts[];

/* ncclSuccess, or ncclInvalidArgument for anything that this copy did not create. */
ncclResult_t stub_check(ncclComm_t comm);

ncclResult_t stub_GetVersion(int* version);
ncclResult_t stub_GetUniqueId(ncclUniqueId* id);
ncclResult_t stub_CommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t stub_CommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config);
ncclResult_t stub_CommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                       ncclUniqueId* ids, ncclConfig_t* config);
ncclResult_t stub_CommInitAll(ncclComm_t* comms, int count, const int* devices);
ncclResult_t stub_CommFinalize(ncclComm_t comm);
ncclResult_t stub_CommDestroy(ncclComm_t comm);
ncclResult_t stub_CommAbort(ncclComm_t comm);
ncclResult_t stub_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                            ncclConfig_t* config);
ncclResult_t stub_CommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* child,
                             ncclConfig_t* config, int flags);
ncclResult_t stub_CommGetUniqueId(ncclComm_t comm, ncclUniqueId* id);
ncclResult_t stub_CommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                           ncclComm_t* grown, ncclConfig_t* config);
const char* stub_GetErrorString(ncclResult_t result);
const char* stub_GetLastError(ncclComm_t comm);
ncclResult_t stub_CommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t stub_CommCount(ncclComm_t comm, int* count);
ncclResult_t stub_CommCuDevice(ncclComm_t comm, int* device);
ncclResult_t stub_CommUserRank(ncclComm_t comm, int* rank);
ncclResult_t stub_MemAlloc(void** pointer, size_t bytes);
ncclResult_t stub_MemFree(void* pointer);
ncclResult_t stub_CommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle);
ncclResult_t stub_CommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                     ncclWindow_t* window, int flags);
ncclResult_t stub_WinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer);
ncclResult_t stub_RedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t stub_Bcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t stub_GroupStart(void);
ncclResult_t stub_GroupEnd(void);

#endif
