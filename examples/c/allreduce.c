/* All-reduce over processes with the plain NCCL API, written as an application would write it.
 *
 * Forks its ranks before any NCCL call and pipes the unique id from rank 0 to the others. Compiles
 * against Sabot's nccl.h and against NVIDIA's; with -DUSE_CUDA it allocates on GPUs through the
 * CUDA runtime, else it passes host pointers, which Sabot's host engine takes. Prints one line a
 * call and rank: rank 0 call 1 AllReduce ok sum=3 rank 1 call 3 AllReduce error ncclSystemError
 * (2): TEXT A rank that saw an error aborts its communicator, reports, and leaves. Exit status 1 if
 * any rank saw one, 2 for wrong options. */
#define _GNU_SOURCE
#include <errno.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef USE_CUDA
#include <cuda_runtime.h>
#endif

enum { kElements = 1024, kRanksMax = 64, kCallsMax = 1000000 };

struct job {
  int ranks;
  int calls;
};

static const char* result_name(ncclResult_t result) {
  static const char* const names[] = {
      "ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
      "ncclRemoteError",   "ncclInProgress",         "ncclTimeout"};
  return (unsigned)result < sizeof names / sizeof *names ? names[result] : "unknown";
}

static void report(int rank, int call, const char* function, ncclResult_t result) {
  printf("rank %d call %d %s error %s (%d): %s\n", rank, call, function, result_name(result),
         (int)result, ncclGetLastError(NULL));
}

static float* allocate(int rank, cudaStream_t* stream) {
#ifdef USE_CUDA
  float* memory = NULL;
  int devices = 1;
  cudaGetDeviceCount(&devices);
  cudaSetDevice(rank % devices);
  cudaMalloc((void**)&memory, kElements * sizeof *memory);
  cudaStreamCreate(stream);
  return memory;
#else
  (void)rank;
  *stream = NULL;
  return malloc(kElements * sizeof(float));
#endif
}

static void fill(float* memory, const float* values) {
#ifdef USE_CUDA
  cudaMemcpy(memory, values, kElements * sizeof *values, cudaMemcpyHostToDevice);
#else
  memcpy(memory, values, kElements * sizeof *values);
#endif
}

static void fetch(float* values, const float* memory, cudaStream_t stream) {
#ifdef USE_CUDA
  cudaStreamSynchronize(stream);
  cudaMemcpy(values, memory, kElements * sizeof *values, cudaMemcpyDeviceToHost);
#else
  (void)stream;
  memcpy(values, memory, kElements * sizeof *values);
#endif
}

/* One call: every element must be the sum over ranks of (rank + call). */
static int one_call(const struct job* job, int rank, int call, ncclComm_t comm, float* memory,
                    cudaStream_t stream) {
  static float values[kElements];
  const float expected =
      (float)job->ranks * (float)(job->ranks - 1) / 2 + (float)(job->ranks * call);
  for (int i = 0; i < kElements; ++i) values[i] = (float)(rank + call);
  fill(memory, values);
  const ncclResult_t result =
      ncclAllReduce(memory, memory, kElements, ncclFloat, ncclSum, comm, stream);
  if (result != ncclSuccess) {
    report(rank, call, "AllReduce", result);
    return 1;
  }
  fetch(values, memory, stream);
  for (int i = 0; i < kElements; ++i) {
    if (values[i] != expected) {
      printf("rank %d call %d AllReduce wrong element %d is %g, expected %g\n", rank, call, i,
             values[i], expected);
      return 1;
    }
  }
  printf("rank %d call %d AllReduce ok sum=%g\n", rank, call, values[0]);
  return 0;
}

static int run_rank(const struct job* job, int rank, const ncclUniqueId* id) {
  cudaStream_t stream;
  float* memory = allocate(rank, &stream);
  ncclComm_t comm;
  const ncclResult_t joined = ncclCommInitRank(&comm, job->ranks, *id, rank);
  if (joined != ncclSuccess) {
    report(rank, 0, "CommInitRank", joined);
    return 1;
  }
  int failed = 0;
  for (int call = 1; call <= job->calls && !failed; ++call)
    failed = one_call(job, rank, call, comm, memory, stream);
  const ncclResult_t left = failed ? ncclCommAbort(comm) : ncclCommDestroy(comm);
  if (left != ncclSuccess) report(rank, 0, failed ? "CommAbort" : "CommDestroy", left);
  return failed || left != ncclSuccess;
}

static int write_id(const int* pipes, int ranks, const ncclUniqueId* id) {
  for (int rank = 1; rank < ranks; ++rank)
    if (write(pipes[2 * rank + 1], id, sizeof *id) != (ssize_t)sizeof *id) return -1;
  return 0;
}

/* The body of one process: rank 0 makes the id, the others read it from their pipe. */
static int child(const struct job* job, int rank, const int* pipes) {
  ncclUniqueId id;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (rank > 0) {
    if (read(pipes[2 * rank], &id, sizeof id) != (ssize_t)sizeof id) {
      printf("rank %d call 0 GetUniqueId error: rank 0 left before it sent the id\n", rank);
      return 1;
    }
    return run_rank(job, rank, &id);
  }
  const ncclResult_t made = ncclGetUniqueId(&id);
  if (made != ncclSuccess) {
    report(rank, 0, "GetUniqueId", made);
    return 1;
  }
  if (write_id(pipes, job->ranks, &id) != 0) {
    printf("rank 0 call 0 GetUniqueId error: cannot send the id: %s\n", strerror(errno));
    return 1;
  }
  return run_rank(job, rank, &id);
}

static int number(const char* text, int limit, const char* option) {
  char* end = NULL;
  const long value = text == NULL ? 0 : strtol(text, &end, 10);
  if (text == NULL || *end != '\0' || value < 1 || value > limit) {
    fprintf(stderr, "%s: expected a number from 1 to %d, found %s\n", option, limit,
            text == NULL ? "nothing" : text);
    exit(2);
  }
  return (int)value;
}

int main(int argc, char** argv) {
  struct job job = {2, 5};
  for (int i = 1; i < argc; i += 2) {
    if (strcmp(argv[i], "--ranks") == 0) {
      job.ranks = number(argv[i + 1], kRanksMax, argv[i]);
    } else if (strcmp(argv[i], "--calls") == 0) {
      job.calls = number(argv[i + 1], kCallsMax, argv[i]);
    } else {
      fprintf(stderr, "usage: %s [--ranks N] [--calls M]\n", argv[0]);
      return 2;
    }
  }
  int pipes[2 * kRanksMax];
  for (int rank = 1; rank < job.ranks; ++rank) {
    if (pipe(&pipes[2 * rank]) != 0) {
      perror("pipe");
      return 2;
    }
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    const pid_t pid = fork();
    if (pid < 0) {
      perror("fork");
      return 2;
    }
    if (pid != 0) continue;
    setenv("RANK", text, 1);
    for (int other = 1; other < job.ranks; ++other) {
      if (rank != 0)
        close(pipes[2 * other + 1]); /* so that a dead rank 0 is seen as the end of the pipe */
    }
    _exit(child(&job, rank, pipes));
  }
  for (int rank = 1; rank < job.ranks; ++rank) close(pipes[2 * rank + 1]);
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return failed;
}
