/* Calls functions that are newer than the library it may meet, and one that Sabot does not know
 * (C7). */
#include <nccl.h>
#include <stdio.h>

#ifdef CALL_FUTURE
ncclResult_t ncclFromTheFuture(int value);
#endif

int main(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL, child = NULL;
  int excluded = 1;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess)
    return 1;
  printf("CommShrink=%d\n", (int)ncclCommShrink(comm, &excluded, 1, &child, NULL, 0));
  printf("last_error=%s\n", ncclGetLastError(comm));
#ifdef CALL_FUTURE
  printf("FromTheFuture=%d\n", (int)ncclFromTheFuture(42));
#endif
  printf("CommDestroy=%d\n", (int)ncclCommDestroy(comm));
  return 0;
}
