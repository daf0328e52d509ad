/* Ranks of one communicator as threads of this process, each working off the same list of steps.
 *
 *     ranks_guest RANKS null|own STEP... [-- STEP...]
 *
 * Linked to libnccl.so.2 like any application. The steps before "--" are done by every rank
 * ("1/skip" by rank 1 only), those after it by the main thread meanwhile. Each step prints one line
 * of facts; ranks_test.py puts faults on them and reads the lines. Every wait here is bounded. */
#define _GNU_SOURCE
#include <glob.h>
#include <nccl.h>
#include <poll.h>
#include <pthread.h>
#include <sabot/stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRanksMax = 8, kCount = 4, kPatienceMs = 30000 };

static int ranks;
static ncclUniqueId id;
static struct rank {
  int rank;
  pthread_t thread;
  ncclComm_t comm;
  cudaStream_t stream;
  float input[kCount], output[kCount];
  volatile int done; /* steps */
} all[kRanksMax];
static char** steps;
static int step_count;

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Between two looks at what is waited for. */
static void nap(void) { poll(NULL, 0, 1); }

static void need(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "ranks_guest: %s\n", what);
  exit(20);
}

/* ---- Steps of a rank ---- */

static ncclResult_t reduce(struct rank* self) {
  return ncclAllReduce(self->input, self->output, kCount, ncclFloat, ncclSum, self->comm,
                       self->stream);
}

static void say(const struct rank* self, const char* step, ncclResult_t result, const char* more) {
  printf("%d %s %d%s\n", self->rank, step, (int)result, more);
}

static void step_init(struct rank* self) {
  const ncclResult_t result = ncclCommInitRank(&self->comm, ranks, id, self->rank);
  say(self, "init", result, self->comm == NULL ? " no comm" : "");
}

static void step_reduce(struct rank* self) {
  char output[64];
  memset(self->output, 0, sizeof self->output);
  const ncclResult_t result = reduce(self);
  snprintf(output, sizeof output, " output %g %g", self->output[0], self->output[kCount - 1]);
  say(self, "reduce", result, self->stream == NULL ? output : "");
}

static void step_group(struct rank* self) {
  need(ncclGroupStart() == ncclSuccess, "GroupStart");
  const ncclResult_t first = reduce(self), second = reduce(self);
  char calls[64];
  const ncclResult_t end = ncclGroupEnd();
  snprintf(calls, sizeof calls, " calls %d %d output %g", (int)first, (int)second, self->output[0]);
  say(self, "group", end, calls);
}

static void step_sync(struct rank* self) {
  const ncclResult_t result = sabot_stream_synchronize(self->stream);
  char output[64];
  snprintf(output, sizeof output, " output %g input %g", self->output[0], self->input[0]);
  say(self, "sync", result, output);
}

static void step_async(struct rank* self) {
  ncclResult_t state = ncclInternalError;
  need(ncclCommGetAsyncError(self->comm, &state) == ncclSuccess, "CommGetAsyncError");
  say(self, "async", state, "");
}

static void step_poll(struct rank* self) {
  ncclResult_t state = ncclSuccess;
  for (const long end = now_ms() + kPatienceMs; state == ncclSuccess && now_ms() < end; nap())
    need(ncclCommGetAsyncError(self->comm, &state) == ncclSuccess, "CommGetAsyncError");
  say(self, "poll", state, "");
}

static void step_split(struct rank* self) {
  ncclComm_t child = (ncclComm_t)(void*)self; /* what a caller that sets nothing may have there */
  const ncclResult_t result = ncclCommSplit(self->comm, 0, self->rank, &child, NULL);
  const int is_made = result == ncclSuccess && child != NULL;
  say(self, "split", result, is_made ? "" : " no comm");
  if (is_made) ncclCommDestroy(child);
}

static void step_text(struct rank* self) {
  printf("%d text %s\n", self->rank, ncclGetLastError(self->comm));
}

static void step_finalize(struct rank* self) {
  say(self, "finalize", ncclCommFinalize(self->comm), "");
}

static void step_destroy(struct rank* self) {
  say(self, "destroy", ncclCommDestroy(self->comm), "");
}

static void step_again(struct rank* self) { say(self, "again", ncclCommDestroy(self->comm), ""); }

static void step_abort(struct rank* self) { say(self, "abort", ncclCommAbort(self->comm), ""); }

static void step_memory(struct rank* self) {
  void* memory = NULL;
  const ncclResult_t result = ncclMemAlloc(&memory, 64);
  if (result == ncclSuccess) ncclMemFree(memory);
  say(self, "memory", result, "");
}

static void step_register(struct rank* self) {
  void* handle = NULL;
  const ncclResult_t result =
      ncclCommRegister(self->comm, self->input, sizeof self->input, &handle);
  if (result == ncclSuccess) ncclCommDeregister(self->comm, handle);
  say(self, "register", result, "");
}

/* A child has none of its parent's holds, and comes to its end. */
static void step_fork(struct rank* self) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    ncclUniqueId own;
    ncclComm_t comm = NULL;
    const int is_well = ncclGetUniqueId(&own) == ncclSuccess &&
                        ncclCommInitRank(&comm, 1, own, 0) == ncclSuccess &&
                        ncclCommDestroy(comm) == ncclSuccess;
    _exit(is_well ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  printf("%d fork %d\n", self->rank, status);
}

static const struct step {
  const char* name;
  void (*run)(struct rank*);
} kSteps[] = {{"init", step_init},         {"reduce", step_reduce}, {"group", step_group},
              {"sync", step_sync},         {"async", step_async},   {"poll", step_poll},
              {"split", step_split},       {"text", step_text},     {"finalize", step_finalize},
              {"destroy", step_destroy},   {"abort", step_abort},   {"memory", step_memory},
              {"register", step_register}, {"fork", step_fork},     {"again", step_again}};

static void* run_steps(void* raw) {
  struct rank* self = raw;
  for (int i = 0; i < step_count; ++i) {
    const char* name = steps[i];
    if (name[1] == '/' && name[0] - '0' != self->rank) continue;
    if (name[1] == '/') name += 2;
    size_t row = 0;
    while (row < sizeof kSteps / sizeof *kSteps && strcmp(kSteps[row].name, name) != 0) ++row;
    need(row < sizeof kSteps / sizeof *kSteps, name);
    const long begin = now_ms();
    kSteps[row].run(self);
    if (getenv("GUEST_TIMES") != NULL) printf("%d took %ld\n", self->rank, now_ms() - begin);
    __sync_fetch_and_add(&self->done, 1);
  }
  return NULL;
}

/* ---- Steps of the main thread ---- */

static int fired(void) {
  char pattern[512];
  snprintf(pattern, sizeof pattern, "%s/journal/*.jsonl", getenv("SABOT_RUN_FOLDER"));
  glob_t found;
  int lines = 0;
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    FILE* file = fopen(found.gl_pathv[i], "r");
    for (int c = 0; file != NULL && (c = fgetc(file)) != EOF;) lines += c == '\n';
    if (file != NULL) fclose(file);
  }
  globfree(&found);
  return lines;
}

static void run_main_step(const char* step) {
  const long begin = now_ms();
  if (strncmp(step, "fired", 5) == 0) {
    while (fired() < atoi(step + 5)) {
      need(now_ms() - begin < kPatienceMs, "nothing fired");
      nap();
    }
  } else if (strncmp(step, "done", 4) == 0) {
    for (int i = 0; i < ranks; ++i) {
      while (all[i].done < atoi(step + 4)) {
        need(now_ms() - begin < kPatienceMs, "a rank does not get on");
        nap();
      }
    }
  } else if (strncmp(step, "abort", 5) == 0) {
    struct rank* other = &all[atoi(step + 5)];
    const ncclResult_t result = ncclCommAbort(other->comm);
    printf("main aborted %d %d in time %d\n", other->rank, (int)result, now_ms() - begin < 10000);
  } else if (strncmp(step, "join", 4) == 0) {
    pthread_join(all[atoi(step + 4)].thread, NULL);
  } else if (strcmp(step, "exit") == 0) {
    fflush(stdout);
    exit(0);
  } else {
    need(0, step);
  }
}

int main(int argc, char** argv) {
  need(argc >= 4, "usage: ranks_guest RANKS null|own STEP... [-- STEP...]");
  setvbuf(stdout, NULL, _IOLBF, 0);
  ranks = atoi(argv[1]);
  steps = argv + 3;
  while (3 + step_count < argc && strcmp(argv[3 + step_count], "--") != 0) ++step_count;
  need(ncclGetUniqueId(&id) == ncclSuccess, "GetUniqueId");
  for (int i = 0; i < ranks; ++i) {
    all[i].rank = i;
    for (int k = 0; k < kCount; ++k) all[i].input[k] = (float)(i + 1);
    if (strcmp(argv[2], "own") == 0)
      need(sabot_stream_create(&all[i].stream) == ncclSuccess, "a stream");
    need(pthread_create(&all[i].thread, NULL, run_steps, &all[i]) == 0, "a thread");
  }
  for (int i = 3 + step_count + 1; i < argc; ++i) run_main_step(argv[i]);
  for (int i = 0; i < ranks; ++i) pthread_join(all[i].thread, NULL);
  return 0;
}
