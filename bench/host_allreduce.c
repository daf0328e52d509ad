/* All-reduce of floats through the NCCL API on host memory: the host engine as an application meets
 * it. */
#define _GNU_SOURCE
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_ranks.h"

static struct bench_job job;

struct token {
  _Atomic int ready;
  ncclUniqueId id;
};

static int body(int rank, double* block_us, void* memory) {
  struct token* token = memory;
  if (rank == 0) {
    if (ncclGetUniqueId(&token->id) != ncclSuccess) return 1;
    atomic_store(&token->ready, 1);
  }
  while (!atomic_load(&token->ready)) usleep(1000);
  ncclComm_t comm;
  if (ncclCommInitRank(&comm, job.ranks, token->id, rank) != ncclSuccess) {
    fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(NULL));
    return 1;
  }
  const size_t count = job.bytes / sizeof(float);
  float* in = malloc(job.bytes);
  float* out = malloc(job.bytes);
  for (size_t i = 0; i < count; ++i) in[i] = (float)rank;
  memset(out, 0, job.bytes);
  for (int block = -1; block < kBlocks; ++block) { /* block -1 warms up */
    const double start = bench_now_us();
    for (int i = 0; i < job.iterations; ++i)
      if (ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, NULL) != ncclSuccess) return 1;
    if (block >= 0) block_us[block] = (bench_now_us() - start) / job.iterations;
  }
  const float expected = (float)(job.ranks * (job.ranks - 1) / 2);
  if (out[0] != expected || out[count - 1] != expected) return 1;
  return ncclCommDestroy(comm) != ncclSuccess;
}

int main(int argc, char** argv) {
  job = bench_options(argc, argv);
  const double median = bench_run_forked(&job, body);
  printf("%.3f\n", median);
  return median < 0;
}
