/* Forked ranks and their times, through one anonymous shared mapping. */
#define _GNU_SOURCE
#include "host_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
  char token[4096];
  double block_us[kBenchRanksMax][kBlocks];
};

struct bench_job bench_options(int argc, char** argv) {
  struct bench_job job = {2, 4, 0};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--ranks") == 0) job.ranks = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--bytes") == 0) job.bytes = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--iterations") == 0) job.iterations = atoi(argv[i + 1]);
  }
  if (job.ranks < 1 || job.ranks > kBenchRanksMax || job.bytes < 4) {
    fprintf(stderr, "usage: %s --ranks 1..%d --bytes 4.. [--iterations N]\n", argv[0],
            kBenchRanksMax);
    exit(2);
  }
  return job;
}

double bench_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

double bench_median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

double bench_run_forked(const struct bench_job* job,
                        int (*body)(int rank, double* block_us, void* token)) {
  struct shared* shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return -1;
  for (int rank = 0; rank < job->ranks; ++rank) {
    if (fork() == 0) _exit(body(rank, shared->block_us[rank], shared->token));
  }
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) failed |= status != 0;
  if (failed) return -1;
  double slowest[kBlocks];
  for (int block = 0; block < kBlocks; ++block) {
    slowest[block] = 0;
    for (int rank = 0; rank < job->ranks; ++rank) {
      const double time = shared->block_us[rank][block];
      if (time > slowest[block]) slowest[block] = time;
    }
  }
  return bench_median(slowest, kBlocks);
}
