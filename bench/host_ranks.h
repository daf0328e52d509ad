/* What the host benchmarks share: forked ranks, sizes, and medians over interleaved blocks.
 *
 * A program takes --ranks N --bytes B --iterations I and prints, from rank 0, one number: the
 * median over its blocks of the time of one operation in microseconds, where a block's time is that
 * of its slowest rank. */
#ifndef BENCH_HOST_RANKS_H_
#define BENCH_HOST_RANKS_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kBlocks = 15, kBenchRanksMax = 16 };

struct bench_job {
  int ranks;
  size_t bytes;
  int iterations; /* operations in a block; 0: chosen from the size */
};

struct bench_job bench_options(int argc, char** argv);
double bench_now_us(void);
/* Sorts and returns the middle. */
double bench_median(double* values, int count);
/* Forks the ranks; body(rank) fills its kBlocks times of one operation. Returns the median over
 * blocks of the slowest rank, or a negative number if a rank failed. token is shared memory for the
 * ranks, 4096 bytes. */
double bench_run_forked(const struct bench_job* job,
                        int (*body)(int rank, double* block_us, void* token));

#ifdef __cplusplus
}
#endif

#endif /* BENCH_HOST_RANKS_H_ */
