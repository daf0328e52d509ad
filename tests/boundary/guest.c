/* A program that looks at what the boundary leaves behind in a process: errno, stdout, forked
 * children, counts.
 *
 *     guest errno | names | fork | threads | groups | lasterror | nonblocking
 *
 * Linked to libnccl.so.2 like any application; boundary_test.py runs it over the stub under
 * LD_PRELOAD. Each part prints one line of facts and exits with 0 if what it checked by itself
 * holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kCallsPerThread = 5000 };

static float buffer[16];

static ncclComm_t make_comm(int rank, int ranks) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  if (ncclGetUniqueId(&id) != ncclSuccess) exit(10);
  if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) exit(11);
  return comm;
}

static ncclResult_t reduce(ncclComm_t comm) {
  return ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, NULL);
}

/* errno is the caller's business, whatever the layers do meanwhile. */
static int part_errno(void) {
  ncclComm_t comm = make_comm(0, 1);
  errno = 77;
  const ncclResult_t first = reduce(comm); /* logged, decided, journalled */
  const int after_fault = errno;
  errno = 78;
  reduce(comm);
  printf("errno %d %d result %d\n", after_fault, errno, (int)first);
  return after_fault != 77 || errno != 78;
}

/* Every public function exists twice, at one address. */
static int part_names(void) {
  const char* names[] = {"AllReduce", "CommInitRank", "GroupEnd", "GetLastError", "ParamDumpAll"};
  int wrong = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char plain[64], profiled[64];
    snprintf(plain, sizeof plain, "nccl%s", names[i]);
    snprintf(profiled, sizeof profiled, "pnccl%s", names[i]);
    wrong += dlsym(RTLD_DEFAULT, plain) == NULL;
    wrong += dlsym(RTLD_DEFAULT, plain) != dlsym(RTLD_DEFAULT, profiled);
  }
  printf("names wrong %d\n", wrong);
  return wrong;
}

/* C17: the child of a fork passes its parent's communicator through, fires nothing for it, and is
 * armed again once it has a communicator of its own. */
static int part_fork(void) {
  ncclComm_t comm = make_comm(0, 1);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const ncclResult_t inherited = reduce(comm); /* would be the parent's first call */
    ncclComm_t own = make_comm(0, 1);
    const ncclResult_t first = reduce(own);
    printf("child inherited %d own %d\n", (int)inherited, (int)first);
    fflush(stdout);
    _exit(inherited != ncclSuccess);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const ncclResult_t parent = reduce(comm);
  printf("parent %d\n", (int)parent);
  return status != 0;
}

static void* hammer(void* number) {
  ncclComm_t comm = make_comm(0, 1);
  long failed = 0;
  for (int i = 0; i < kCallsPerThread; ++i) failed += reduce(comm) != ncclSuccess;
  ncclCommDestroy(comm);
  *(long*)number = failed;
  return NULL;
}

/* Numbers and counts are exact whatever the threads do. */
static int part_threads(void) {
  pthread_t threads[kThreads];
  long failed[kThreads];
  long all = 0;
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, hammer, &failed[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL), all += failed[i];
  printf("threads failed %ld of %d\n", all, kThreads * kCallsPerThread);
  return 0;
}

/* The fault of a call in a group comes from the outermost GroupEnd; the next group is whole again.
 */
static int part_groups(void) {
  ncclComm_t comm = make_comm(0, 1);
  ncclGroupStart();
  const ncclResult_t in_group = reduce(comm);
  const ncclResult_t second = reduce(comm);
  const ncclResult_t end = ncclGroupEnd();
  ncclGroupStart();
  const ncclResult_t later = reduce(comm);
  const ncclResult_t later_end = ncclGroupEnd();
  printf("group %d %d end %d then %d end %d\n", (int)in_group, (int)second, (int)end, (int)later,
         (int)later_end);
  return 0;
}

/* C10: ncclInProgress of a non-blocking communicator is no error: it is polled, not faulted. */
static int part_nonblocking(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (ncclGetUniqueId(&id) != ncclSuccess) return 10;
  const ncclResult_t started = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  ncclResult_t state = ncclInProgress;
  int polls = 0;
  while (state == ncclInProgress && polls < 1000) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return 11;
    ++polls;
  }
  const ncclResult_t first = reduce(comm);
  ncclCommGetAsyncError(comm, &state);
  printf("started %d ready after several polls %d reduced %d state %d\n", (int)started, polls > 1,
         (int)first, (int)state);
  return 0;
}

static void* ask(void* out) {
  snprintf(out, 1024, "%s", ncclGetLastError(NULL));
  return NULL;
}

/* The thread that saw the error and the watchdog thread read the same text. */
static int part_last_error(void) {
  ncclComm_t comm = make_comm(0, 1);
  reduce(comm);
  char other[1024];
  pthread_t thread;
  pthread_create(&thread, NULL, ask, other);
  pthread_join(thread, NULL);
  printf("own: %s\nother: %s\n", ncclGetLastError(NULL), other);
  return strcmp(ncclGetLastError(NULL), other) != 0;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*run)(void);
  } parts[] = {{"errno", part_errno},
               {"names", part_names},
               {"fork", part_fork},
               {"threads", part_threads},
               {"groups", part_groups},
               {"lasterror", part_last_error},
               {"nonblocking", part_nonblocking}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) return parts[i].run();
  fprintf(stderr, "usage: guest errno|names|fork|threads|groups|lasterror|nonblocking\n");
  return 2;
}
