/* A program that announces calls, injects faults and uses the host engine beside its own NCCL.
 *
 *     fault_guest PART [LIBRARY [asked]]
 *
 * Linked to libnccl.so.2 like any application (the stub); what is ours it finds by
 * host_function, in the preloaded library or in LIBRARY (asked: even if one is preloaded).
 * fault_test.py runs it and reads what each part prints: facts, one a line. Compiled as C99, as
 * fault.h promises. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <poll.h>
#include <pthread.h>
#include <sabot/fault.h>
#include <sabot/stack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions of the host engine and ours, by the names that the headers give them. */
static struct {
  ncclResult_t (*GetUniqueId)(ncclUniqueId*);
  ncclResult_t (*CommInitRank)(ncclComm_t*, int, ncclUniqueId, int);
  ncclResult_t (*CommSplit)(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*);
  ncclResult_t (*CommUserRank)(ncclComm_t, int*);
  ncclResult_t (*CommDestroy)(ncclComm_t);
  ncclResult_t (*AllReduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                            cudaStream_t);
  ncclResult_t (*BeneathAllReduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
  ncclResult_t (*GroupStart)(void);
  ncclResult_t (*GroupEnd)(void);
  const char* (*GetLastError)(ncclComm_t);
} host;
static struct {
  ncclResult_t (*comm_open)(const sabot_comm_info_t*);
  ncclResult_t (*comm_close)(const void*);
  ncclResult_t (*enter)(sabot_call_t*, sabot_decision_t*);
  ncclResult_t (*leave)(sabot_call_t*, ncclResult_t);
  ncclResult_t (*inject)(const char*, sabot_fired_fn, void*, uint64_t*, char*, size_t);
  ncclResult_t (*withdraw)(uint64_t, uint64_t*, char*, size_t);
} ours;
static const sabot_stack_info_t* info;
static float input[4] = {1, 2, 3, 4};
static float output[4];

static void need(int is_met, const char* what) {
  if (is_met) return;
  fprintf(stderr, "fault_guest: %s\n", what);
  exit(20);
}

static void find(void* slot, const char* name) {
  void* function = info->host_function(name);
  need(function != NULL, name);
  memcpy(slot, &function, sizeof function);
}

static void find_all(const char* library, int is_asked) {
  void* symbol = dlsym(RTLD_DEFAULT, "sabot_stack_v1");
  if (symbol == NULL || is_asked) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    need(handle != NULL, "cannot open the library");
    symbol = dlsym(handle, "sabot_stack_v1");
  }
  const sabot_stack_info_t* (*describe)(void);
  memcpy(&describe, &symbol, sizeof symbol);
  info = describe();
  need(info->size >= sizeof *info, "the library is older than its header");
  find(&host.GetUniqueId, "ncclGetUniqueId");
  find(&host.CommInitRank, "ncclCommInitRank");
  find(&host.CommSplit, "ncclCommSplit");
  find(&host.CommUserRank, "ncclCommUserRank");
  find(&host.CommDestroy, "ncclCommDestroy");
  find(&host.AllReduce, "ncclAllReduce");
  find(&host.BeneathAllReduce, "pncclAllReduce");
  find(&host.GroupStart, "ncclGroupStart");
  find(&host.GroupEnd, "ncclGroupEnd");
  find(&host.GetLastError, "ncclGetLastError");
  find(&ours.comm_open, "sabot_comm_open");
  find(&ours.comm_close, "sabot_comm_close");
  find(&ours.enter, "sabot_call_enter");
  find(&ours.leave, "sabot_call_leave");
  find(&ours.inject, "sabot_fault_inject");
  find(&ours.withdraw, "sabot_fault_withdraw");
}

static ncclComm_t make_comm(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  need(host.GetUniqueId(&id) == ncclSuccess, "GetUniqueId");
  need(host.CommInitRank(&comm, 1, id, 0) == ncclSuccess, "CommInitRank");
  return comm;
}

static ncclComm_t make_real_comm(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  need(ncclGetUniqueId(&id) == ncclSuccess, "the application's GetUniqueId");
  need(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess, "the application's CommInitRank");
  return comm;
}

static ncclResult_t reduce(ncclComm_t comm) {
  return host.AllReduce(input, output, 4, ncclFloat, ncclSum, comm, NULL);
}

static ncclResult_t real_reduce(ncclComm_t comm) {
  return ncclAllReduce(input, output, 4, ncclFloat, ncclSum, comm, NULL);
}

static ncclResult_t open_comm(const void* key, const char* name, const void* parent) {
  const sabot_comm_info_t comm = {sizeof comm, key, 0, 1, 0, name, parent};
  return ours.comm_open(&comm);
}

/* An AllReduce like reduce(), executed by nobody. */
static sabot_call_t announcement(const void* comm) {
  sabot_call_t call = {.size = sizeof call,
                       .function = "AllReduce",
                       .comm = comm,
                       .count = 4,
                       .datatype = ncclFloat,
                       .redop = ncclSum,
                       .root = -1,
                       .peer = -1,
                       .send = input,
                       .recv = output};
  return call;
}

static ncclResult_t announce(const void* comm) {
  sabot_call_t call = announcement(comm);
  sabot_decision_t decision = {.size = sizeof decision};
  need(ours.enter(&call, &decision) == ncclSuccess, "enter");
  return ours.leave(&call, ncclSuccess);
}

static uint64_t inject(const char* text, sabot_fired_fn fired, void* user) {
  uint64_t id = 0;
  char error[512];
  if (ours.inject(text, fired, user, &id, error, sizeof error) == ncclSuccess) return id;
  fprintf(stderr, "%s\n", error);
  exit(21);
}

static void withdraw(uint64_t id) {
  uint64_t fired = 0;
  char why_not[512];
  const ncclResult_t result = ours.withdraw(id, &fired, why_not, sizeof why_not);
  printf("withdrawn %d fired %d why_not '%s'\n", (int)result, (int)fired, why_not);
}

static void show_firing(void* user, const sabot_firing_t* firing) {
  printf("%s: injection %d fault %s %s %s rank %d nth %d collective %d match %d result %d\n",
         (const char*)user, (int)firing->injection, firing->fault, firing->function,
         firing->comm_label, firing->rank, (int)firing->nth, (int)firing->nth_collective,
         (int)firing->match, (int)firing->result);
}

/* ---- Parts ---- */

/* Three calls of NCCL, or three announced ones: the same lines must come of them. */
static int part_called(void) {
  ncclComm_t comm = make_comm();
  for (int i = 0; i < 3; ++i) printf("result %d\n", (int)reduce(comm));
  return 0;
}

static int part_announced(void) {
  need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
  for (int i = 0; i < 3; ++i) printf("result %d\n", (int)announce("key"));
  return 0;
}

/* What enter fills in, what leave returns, and whose calls are numbered meanwhile. */
static int part_moments(void) {
  need(open_comm("key", "of the test", NULL) == ncclSuccess, "open");
  need(open_comm("child", NULL, "key") == ncclSuccess, "open with a parent");
  sabot_decision_t decision = {.size = sizeof decision};
  sabot_call_t call = announcement("key");
  call.datatype = -1;
  call.bytes = 77;
  for (int i = 0; i < 2; ++i) {
    need(ours.enter(&call, &decision) == ncclSuccess, "enter");
    printf("%s nth %d collective %d rank %d of %d bytes %d: kind %d before %d result %d '%s'\n",
           call.comm_label, (int)call.nth, (int)call.nth_collective, call.rank, call.ranks,
           (int)call.bytes, decision.kind, decision.before, (int)decision.result, decision.text);
    printf("left %d\n", (int)ours.leave(&call, ncclSuccess));
  }
  sabot_call_t broadcast = announcement("child");
  broadcast.function = "ncclBroadcast";
  sabot_call_t inner = announcement("key");
  need(ours.enter(&broadcast, &decision) == ncclSuccess, "enter on the child");
  need(ours.enter(&inner, &decision) == ncclSuccess, "enter within");
  printf("%s nth %d, inner nth %d\n", broadcast.comm_label, (int)broadcast.nth, (int)inner.nth);
  printf("out of order %d\n", (int)ours.leave(&broadcast, ncclSuccess));
  printf("inner %d\n", (int)ours.leave(&inner, ncclSuccess));
  printf("failed by itself %d\n", (int)ours.leave(&broadcast, ncclRemoteError));
  printf("twice %d\n", (int)ours.leave(&broadcast, ncclSuccess));
  return 0;
}

/* An error after the call counts only if the call itself succeeded. */
static int part_after(void) {
  need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
  const ncclResult_t outcomes[] = {ncclSuccess, ncclSystemError, ncclRemoteError};
  for (int i = 0; i < 3; ++i) {
    sabot_decision_t decision = {.size = sizeof decision};
    sabot_call_t call = announcement("key");
    need(ours.enter(&call, &decision) == ncclSuccess, "enter");
    const int before = decision.before;
    const ncclResult_t given = ours.leave(&call, outcomes[i]);
    printf("before %d executed %d given %d last '%s'\n", before, (int)outcomes[i], (int)given,
           host.GetLastError(NULL));
  }
  return 0;
}

/* What each kind of fault asks of a caller that executes calls by itself, here by copying. */
static int part_kinds(void) {
  need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
  for (int i = 0; i < 6; ++i) {
    float in[4] = {1, 2, 3, 4}, out[4] = {9, 9, 9, 9};
    sabot_decision_t decision = {.size = sizeof decision};
    sabot_call_t call = announcement("key");
    call.send = in;
    call.recv = out;
    call.memory = SABOT_MEMORY_HOST;
    need(ours.enter(&call, &decision) == ncclSuccess, "enter");
    int zeros = 0;
    for (int k = 0; k < 4; ++k) zeros += in[k] == 0;
    if (!decision.before) memcpy(out, in, sizeof out);
    const ncclResult_t given = ours.leave(&call, ncclSuccess);
    int changed = 0, output_zeros = 0;
    for (int k = 0; k < 4; ++k) changed += in[k] != (float)(k + 1);
    for (int k = 0; k < 4; ++k) output_zeros += out[k] == 0;
    printf("kind %d before %d result %d zeros %d given %d changed %d output zeros %d\n",
           decision.kind, decision.before, (int)decision.result, zeros, (int)given, changed,
           output_zeros);
  }
  return 0;
}

/* A call that is held in enter ends with its communicator, whoever ends that, and how. */
static volatile int is_held;

static void note_held(void* user, const sabot_firing_t* firing) {
  (void)user, (void)firing;
  __sync_fetch_and_add(&is_held, 1);
}

static void* announce_held(void* unused) {
  sabot_call_t call = announcement("key");
  sabot_decision_t decision = {.size = sizeof decision};
  need(ours.enter(&call, &decision) == ncclSuccess, "enter");
  printf("held: kind %d before %d result %d\n", decision.kind, decision.before,
         (int)decision.result);
  printf("left %d\n", (int)ours.leave(&call, ncclSuccess));
  return unused;
}

static int part_held(void) {
  const uint64_t id = inject("AllReduce=hang", note_held, NULL);
  for (int by_close = 0; by_close < 2; ++by_close) {
    need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
    pthread_t thread;
    is_held = 0;
    pthread_create(&thread, NULL, announce_held, NULL);
    for (int i = 0; i < 20000 && is_held == 0; ++i) poll(NULL, 0, 1);
    if (by_close) {
      need(ours.comm_close("key") == ncclSuccess, "close");
    } else {
      sabot_call_t call = announcement("key");
      sabot_decision_t decision = {.size = sizeof decision};
      call.function = "CommAbort";
      need(ours.enter(&call, &decision) == ncclSuccess, "enter the abort");
      printf("abort %d\n", (int)ours.leave(&call, ncclSuccess));
    }
    pthread_join(thread, NULL);
  }
  withdraw(id);
  return 0;
}

static void show_refusal(sabot_call_t call) {
  sabot_decision_t decision = {.size = sizeof decision};
  const ncclResult_t result = ours.enter(&call, &decision);
  printf("%d %s\n", (int)result, host.GetLastError(NULL));
}

static int part_refusals(void) {
  sabot_call_t call = announcement("never opened");
  show_refusal(call);
  call = announcement(NULL);
  call.function = "AllReduse";
  show_refusal(call);
  call.function = "GroupStart";
  show_refusal(call);
  call.size = 8;
  show_refusal(call);
  need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
  printf("%d again\n", (int)open_comm("key", NULL, NULL));
  printf("%d parent\n", (int)open_comm("other", NULL, "nobody"));
  printf("%d close\n", (int)ours.comm_close("key"));
  printf("%d close again\n", (int)ours.comm_close("key"));
  printf("%d close of NCCL's\n", (int)ours.comm_close(make_comm()));
  uint64_t id = 0;
  char error[512];
  const char* texts[] = {"AllReduce[nht=1]=error(SystemError)", "GroupStart=skip",
                         "sabot = 1\n[[fault]]\nwhen = { call = \"AllReduce\" }\n",
                         "CommInitRank[captured=true]=error(SystemError)"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    const ncclResult_t result = ours.inject(texts[i], NULL, NULL, &id, error, sizeof error);
    printf("%d %s\n", (int)result, error);
  }
  printf("%d withdraw\n", (int)ours.withdraw(99, NULL, NULL, 0));
  printf("unknown %d %d\n", info->host_function("ncclNothing") == NULL,
         info->host_function("AllReduce") == NULL);
  return 0;
}

static int part_inject(void) {
  ncclComm_t first = make_comm();
  ncclComm_t second = make_comm();
  char user[] = "told";
  reduce(second); /* past the layers: nobody numbers it */
  const uint64_t line =
      inject("nic-dies: AllReduce[comm=c0,nth=2]=error(SystemError)", show_firing, user);
  const uint64_t document = inject(
      "sabot = 1\nname = \"a document\"\n[[fault]]\nname = \"once\"\n"
      "when = { call = \"AllReduce\", comm = \"c1\" }\ndo = { error = \"RemoteError\" }\n"
      "budget = 1\n[[fault]]\nname = \"never\"\nwhen = { call = \"AllReduce\", rank = 7 }\n"
      "do = { error = \"RemoteError\" }\n",
      show_firing, user);
  printf("second %d\n", (int)reduce(second));
  printf("%s\n", host.GetLastError(second));
  printf("second %d\n", (int)reduce(second));
  printf("first %d\n", (int)reduce(first));
  printf("first %d\n", (int)reduce(first));
  printf("%s\n", host.GetLastError(first));
  withdraw(document);
  withdraw(line);
  for (int i = 0; i < 5; ++i) need(reduce(first) == ncclSuccess, "a call after the withdrawal");
  const uint64_t again = inject("AllReduce=error(SystemError)", show_firing, user);
  printf("first %d\n", (int)reduce(first));
  withdraw(again);
  return 0;
}

/* A group that is open when the fault arrives ends with it, and the next one is whole. */
static int part_group(void) {
  ncclComm_t comm = make_comm();
  output[0] = 0;
  host.GroupStart();
  const uint64_t id = inject("AllReduce[nth=1]=error(SystemError)", NULL, NULL);
  const ncclResult_t inside = reduce(comm);
  const ncclResult_t end = host.GroupEnd();
  printf("inside %d end %d output %g\n", (int)inside, (int)end, output[0]);
  host.GroupStart();
  withdraw(id);
  const ncclResult_t later = reduce(comm);
  const ncclResult_t later_end = host.GroupEnd();
  printf("inside %d end %d output %g\n", (int)later, (int)later_end, output[0]);
  const uint64_t alone = inject("AllReduce=error(SystemError)", NULL, NULL);
  printf("alone %d\n", (int)reduce(comm));
  withdraw(alone);
  return 0;
}

/* Clears the output first, so that it shows who computed. */
static void show(const char* who, ncclResult_t (*call)(ncclComm_t), ncclComm_t comm) {
  memset(output, 0, sizeof output);
  const ncclResult_t result = call(comm);
  printf("%s %d output %g\n", who, (int)result, output[3]);
}

static ncclResult_t beneath_reduce(ncclComm_t comm) {
  return host.BeneathAllReduce(input, output, 4, ncclFloat, ncclSum, comm, NULL);
}

static ncclResult_t announce_comm(ncclComm_t comm) { return announce(comm); }

/* The host engine beside a real one; the stub computes nothing. */
static int part_beside(void) {
  ncclComm_t real = make_real_comm();
  ncclComm_t comm = make_comm();
  show("real", real_reduce, real);
  show("beside", reduce, comm);
  show("beneath", beneath_reduce, comm);
  show("real", real_reduce, real);
  show("beside", reduce, comm);
  ncclComm_t child = NULL;
  need(host.CommSplit(comm, 0, 0, &child, NULL) == ncclSuccess, "split");
  show("announced", announce_comm, child);
  show("child", reduce, child);
  /* A group of one engine is none of the other. */
  need(ncclGroupStart() == ncclSuccess, "GroupStart");
  show("beside", reduce, comm);
  show("grouped", real_reduce, real);
  printf("end %d\n", (int)ncclGroupEnd());
  return host.CommDestroy(child) != ncclSuccess || host.CommDestroy(comm) != ncclSuccess;
}

/* Calls of NCCL inside an announced call are that call's. */
static void call_back(void* comm, const sabot_firing_t* firing) {
  (void)firing;
  printf("from the callback %d\n", (int)real_reduce((ncclComm_t)comm));
}

static int part_inner(void) {
  ncclComm_t real = make_real_comm();
  need(open_comm("key", NULL, NULL) == ncclSuccess, "open");
  sabot_call_t call = announcement("key");
  sabot_decision_t decision = {.size = sizeof decision};
  need(ours.enter(&call, &decision) == ncclSuccess, "enter");
  printf("inner %d\n", (int)real_reduce(real));
  printf("left %d\n", (int)ours.leave(&call, ncclSuccess));
  printf("outer %d\n", (int)real_reduce(real));
  const uint64_t id = inject("AllReduce=error(RemoteError)", call_back, real);
  printf("announced %d\n", (int)announce("key"));
  printf("real %d\n", (int)real_reduce(real));
  withdraw(id);
  return 0;
}

static int part_fork(void) {
  ncclComm_t comm = make_comm();
  const uint64_t id = inject("AllReduce=error(SystemError)", NULL, NULL);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    printf("child withdraw %d\n", (int)ours.withdraw(id, NULL, NULL, 0));
    need(open_comm("key", NULL, NULL) == ncclSuccess, "open in the child");
    printf("child %d\n", (int)announce("key"));
    const uint64_t own = inject("AllReduce[nth=2]=error(RemoteError)", NULL, NULL);
    const ncclResult_t first = announce("key");
    const ncclResult_t second = announce("key");
    printf("child %d %d\n", (int)first, (int)second);
    withdraw(own);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("parent %d\n", (int)reduce(comm));
  withdraw(id);
  return status != 0;
}

/* ---- Threads that call while others inject ---- */

enum { kCalls = 20000, kInjections = 1000 };
static volatile long told;
static long withdrawn_fired;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count_firing(void* user, const sabot_firing_t* firing) {
  (void)firing;
  need(*(const int*)user == 1, "a callback ran after its withdrawal");
  __sync_fetch_and_add(&told, 1);
}

static void* call_many(void* failed) {
  ncclComm_t comm = make_comm();
  float own[4];
  for (int i = 0; i < kCalls; ++i)
    *(long*)failed += host.AllReduce(input, own, 4, ncclFloat, ncclSum, comm, NULL) != ncclSuccess;
  for (int i = 0; i < kCalls; ++i) *(long*)failed += announce(comm) != ncclSuccess;
  host.CommDestroy(comm);
  return NULL;
}

static void* inject_many(void* unused) {
  for (int i = 0; i < kInjections; ++i) {
    int user = 1;
    uint64_t fired = 0;
    const uint64_t id = inject("AllReduce[every=3]=error(SystemError)", count_firing, &user);
    need(ours.withdraw(id, &fired, NULL, 0) == ncclSuccess, "withdraw");
    user = 0;
    pthread_mutex_lock(&counting);
    withdrawn_fired += (long)fired;
    pthread_mutex_unlock(&counting);
  }
  return unused;
}

static int part_threads(void) {
  pthread_t threads[4];
  long failed[2] = {0, 0};
  int user = 1;
  uint64_t fired = 0;
  const uint64_t id = inject("AllReduce[every=2]=error(SystemError)", count_firing, &user);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, call_many, &failed[i]);
  for (int i = 2; i < 4; ++i) pthread_create(&threads[i], NULL, inject_many, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  need(ours.withdraw(id, &fired, NULL, 0) == ncclSuccess, "withdraw");
  const long all = withdrawn_fired + (long)fired;
  printf("told as often as failed %d, as counted %d, at least half of the calls %d\n",
         told == failed[0] + failed[1], told == all, all >= 2 * kCalls);
  return 0;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*run)(void);
  } parts[] = {{"called", part_called},  {"announced", part_announced}, {"moments", part_moments},
               {"after", part_after},    {"refusals", part_refusals},   {"inject", part_inject},
               {"kinds", part_kinds},    {"held", part_held},           {"group", part_group},
               {"beside", part_beside},  {"inner", part_inner},         {"fork", part_fork},
               {"threads", part_threads}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (argc < 2 || strcmp(argv[1], parts[i].name) != 0) continue;
    find_all(argc > 2 ? argv[2] : "", argc > 3 && strcmp(argv[3], "asked") == 0);
    return parts[i].run();
  }
  fprintf(stderr, "usage: fault_guest PART [LIBRARY [asked]]\n");
  return 2;
}
