/* One small use of NCCL by one rank, with every result printed as NAME=CODE, one a line.
 *
 * The functions come in as a struct, so that the same session runs over linked functions, over the
 * handle of a dlopen, and inside frameworks. What it prints is what an application would have seen.
 */
#ifndef SESSION_H_
#define SESSION_H_

#include <nccl.h>
#include <stdio.h>

struct session_api {
  ncclResult_t (*GetVersion)(int*);
  ncclResult_t (*GetUniqueId)(ncclUniqueId*);
  ncclResult_t (*CommInitRank)(ncclComm_t*, int, ncclUniqueId, int);
  ncclResult_t (*CommCount)(const ncclComm_t, int*);
  ncclResult_t (*AllReduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                            cudaStream_t);
  ncclResult_t (*Bcast)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  ncclResult_t (*GroupStart)(void);
  ncclResult_t (*GroupEnd)(void);
  ncclResult_t (*CommDestroy)(ncclComm_t);
  const char* (*GetLastError)(ncclComm_t);
};

#define SESSION_LINKED                                                                          \
  {                                                                                             \
    ncclGetVersion, ncclGetUniqueId, ncclCommInitRank, ncclCommCount, ncclAllReduce, ncclBcast, \
        ncclGroupStart, ncclGroupEnd, ncclCommDestroy, ncclGetLastError                         \
  }

/* Fails only where it cannot go on; a result that is an error is what the caller wants to see. */
static inline int run_session(const struct session_api* api, const char* name) {
  float data[4] = {1, 2, 3, 4};
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int version = 0, ranks = 0;
  printf("session=%s\n", name);
  printf("GetVersion=%d\n", (int)api->GetVersion(&version));
  printf("version=%d\n", version);
  printf("GetUniqueId=%d\n", (int)api->GetUniqueId(&id));
  printf("CommInitRank=%d\n", (int)api->CommInitRank(&comm, 1, id, 0));
  if (comm == NULL) return 1;
  printf("CommCount=%d\n", (int)api->CommCount(comm, &ranks));
  printf("AllReduce=%d\n", (int)api->AllReduce(data, data, 4, ncclFloat, ncclSum, comm, NULL));
  printf("GroupStart=%d\n", (int)api->GroupStart());
  printf("GroupedAllReduce=%d\n",
         (int)api->AllReduce(data, data, 4, ncclFloat, ncclSum, comm, NULL));
  printf("GroupEnd=%d\n", (int)api->GroupEnd());
  printf("Bcast=%d\n", (int)api->Bcast(data, 4, ncclFloat, 0, comm, NULL));
  printf("last_error=%s\n", api->GetLastError(comm));
  printf("CommDestroy=%d\n", (int)api->CommDestroy(comm));
  fflush(stdout);
  return 0;
}

#endif
