/* The same all-reduce through MPI, started by mpirun; prints like the others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 15 };

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  size_t bytes = 4;
  int iterations = 100;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--bytes") == 0) bytes = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--iterations") == 0) iterations = atoi(argv[i + 1]);
  }
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int count = (int)(bytes / sizeof(float));
  float* in = malloc(bytes);
  float* out = malloc(bytes);
  for (int i = 0; i < count; ++i) in[i] = (float)rank;
  memset(out, 0, bytes);
  double slowest[kBlocks];
  for (int block = -1; block < kBlocks; ++block) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i)
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double time = (MPI_Wtime() - start) * 1e6 / iterations;
    double most = 0;
    MPI_Reduce(&time, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (block >= 0) slowest[block] = most;
  }
  qsort(slowest, kBlocks, sizeof *slowest, ascending);
  if (rank == 0) printf("%.3f\n", slowest[kBlocks / 2]);
  MPI_Finalize();
  return 0;
}
