/* What one call of ncclAllReduce costs against a stub that does nothing: the median over batches,
 * in ns. The program links libnccl.so.2 as an application does; run.py runs it as it is and under
 * Sabot. */
#define _GNU_SOURCE
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBatches = 2001, kCalls = 1000 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(void) {
  static double batches[kBatches];
  static float buffer[16];
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
    fprintf(stderr, "%s\n", ncclGetLastError(NULL));
    return 1;
  }
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = now_ns();
    for (int i = 0; i < kCalls; ++i)
      if (ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, NULL) != ncclSuccess)
        return 1;
    batches[batch] = (now_ns() - start) / kCalls;
  }
  qsort(batches, kBatches, sizeof *batches, ascending);
  printf("%.3f\n", batches[kBatches / 2]);
  ncclCommDestroy(comm);
  return 0;
}
