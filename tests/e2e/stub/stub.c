/* What the functions of the stub do; the ones that are not here check their communicator and
 * succeed. */
#include "stub.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlfcn.h>

#ifndef STUB_NAME
#define STUB_NAME "stub"
#endif

enum {
  kCommsMax = 1024, /* handles are reused after so many: their memory stays readable until then */
  kPendingMax = 64, /* communicators created in one group by one thread */
  kPollsMax = 3,    /* answers of ncclInProgress before a non-blocking communicator is ready */
  kTextBytesMax = 256,
  kReportBytesMax = 8192
};

struct ncclComm {
  unsigned long magic;
  int rank, ranks, polls_left, reductions;
};

static struct ncclComm comms[kCommsMax];
static unsigned comms_used;
static char last_error[kTextBytesMax];
static __thread int group_depth;
static __thread int pending_count;
static __thread struct {
  ncclComm_t* slot;
  ncclComm_t comm;
} pending[kPendingMax];

/* Each copy refuses the handles of every other one: its own text is its mark. */
static unsigned long magic(void) { return (unsigned long)(const void*)stub_version_text; }

static ncclResult_t fail(ncclResult_t code, const char* text) {
  snprintf(last_error, sizeof last_error, "%s: %s", STUB_NAME, text);
  return code;
}

ncclResult_t stub_check(ncclComm_t comm) {
  if (comm < comms || comm >= comms + kCommsMax || comm->magic != magic())
    return fail(ncclInvalidArgument, "corrupted comm object");
  return ncclSuccess;
}

static ncclResult_t create(ncclComm_t* slot, int rank, int ranks, const ncclConfig_t* config) {
  if (slot == NULL || ranks < 1 || rank < 0 || rank >= ranks)
    return fail(ncclInvalidArgument, "no such rank");
  if (config != NULL && config->magic != 0xcafebeef)
    return fail(ncclInvalidArgument, "config is not initialised");
  const unsigned index = __atomic_fetch_add(&comms_used, 1, __ATOMIC_RELAXED) % kCommsMax;
  struct ncclComm* comm = &comms[index];
  const int blocking = config == NULL || config->blocking != 0;
  *comm = (struct ncclComm){magic(), rank, ranks, blocking ? 0 : kPollsMax, 0};
  if (group_depth == 0) {
    *slot = comm;
    return blocking ? ncclSuccess : ncclInProgress;
  }
  if (pending_count == kPendingMax) return fail(ncclInternalError, "too many in one group");
  pending[pending_count].slot = slot;
  pending[pending_count++].comm = comm;
  return ncclSuccess;
}

ncclResult_t stub_GetVersion(int* version) {
  if (version == NULL) return fail(ncclInvalidArgument, "version is null");
  *version = stub_version_code;
  return ncclSuccess;
}

ncclResult_t stub_GetUniqueId(ncclUniqueId* id) {
  static unsigned ids;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%s %d %u", STUB_NAME, (int)getpid(),
           __atomic_fetch_add(&ids, 1, __ATOMIC_RELAXED));
  return ncclSuccess;
}

/* The id comes by value, 128 bytes on the stack: a wrapper that loses it is noticed here. */
static ncclResult_t check_id(const ncclUniqueId* id) {
  if (strncmp(id->internal, STUB_NAME " ", strlen(STUB_NAME) + 1) != 0)
    return fail(ncclInvalidArgument, "the unique id is of another library");
  return ncclSuccess;
}

ncclResult_t stub_CommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  const ncclResult_t checked = check_id(&id);
  return checked != ncclSuccess ? checked : create(comm, rank, ranks, config);
}

ncclResult_t stub_CommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return stub_CommInitRankConfig(comm, ranks, id, rank, NULL);
}

ncclResult_t stub_CommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                       ncclUniqueId* ids, ncclConfig_t* config) {
  if (id_count < 1) return fail(ncclInvalidArgument, "no unique id");
  return stub_CommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t stub_CommInitAll(ncclComm_t* created, int count, const int* devices) {
  (void)devices;
  for (int i = 0; i < count; ++i) {
    const ncclResult_t result = create(&created[i], i, count, NULL);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t stub_CommFinalize(ncclComm_t comm) { return stub_check(comm); }

/* NCCL's own threads call its public names too. */
static void* clean_up_in_thread(void* argument) {
  ncclComm_t comm = argument;
  const ncclResult_t freed = ncclMemFree(NULL);
  const ncclResult_t deregistered = ncclCommDeregister(comm, NULL);
  return freed == ncclSuccess && deregistered == ncclSuccess ? NULL : argument;
}

/* What the real one does while it cleans up: public names, through the loader (case C6). */
static ncclResult_t clean_up(ncclComm_t comm) {
  ncclResult_t async = ncclSuccess;
  int version = 0;
  pthread_t thread;
  void* failed = NULL;
  const int wrong = ncclCommGetAsyncError(comm, &async) != ncclSuccess || async != ncclSuccess ||
                    ncclGetVersion(&version) != ncclSuccess || version != stub_version_code ||
                    strcmp(ncclGetErrorString(ncclSuccess), "no error") != 0 ||
                    pthread_create(&thread, NULL, clean_up_in_thread, comm) != 0 ||
                    pthread_join(thread, &failed) != 0 || failed != NULL;
  return wrong ? fail(ncclInternalError, "cleanup comm failed") : ncclSuccess;
}

ncclResult_t stub_CommDestroy(ncclComm_t comm) {
  const ncclResult_t checked = stub_check(comm);
  if (checked != ncclSuccess) return checked;
  comm->polls_left = 0;
  const ncclResult_t cleaned = clean_up(comm);
  comm->magic = 0;
  return cleaned;
}

ncclResult_t stub_CommAbort(ncclComm_t comm) { return stub_CommDestroy(comm); }

ncclResult_t stub_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                            ncclConfig_t* config) {
  (void)key;
  const ncclResult_t checked = stub_check(comm);
  if (checked != ncclSuccess) return checked;
  if (color == NCCL_SPLIT_NOCOLOR) {
    *child = NULL;
    return ncclSuccess;
  }
  return create(child, comm->rank, comm->ranks, config);
}

ncclResult_t stub_CommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* child,
                             ncclConfig_t* config, int flags) {
  (void)excluded, (void)flags;
  const ncclResult_t checked = stub_check(comm);
  if (checked != ncclSuccess) return checked;
  return create(child, 0, comm->ranks - count, config);
}

ncclResult_t stub_CommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  const ncclResult_t checked = stub_check(comm);
  return checked != ncclSuccess ? checked : stub_GetUniqueId(id);
}

ncclResult_t stub_CommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                           ncclComm_t* grown, ncclConfig_t* config) {
  (void)id;
  if (comm == NULL) return create(grown, rank, ranks, config);
  const ncclResult_t checked = stub_check(comm);
  return checked != ncclSuccess ? checked : create(grown, comm->rank, ranks, config);
}

const char* stub_GetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "another error";
  }
}

const char* stub_GetLastError(ncclComm_t comm) {
  (void)comm;
  return last_error;
}

ncclResult_t stub_CommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const ncclResult_t checked = stub_check(comm);
  if (checked != ncclSuccess) return checked;
  *error = comm->polls_left > 0 ? ncclInProgress : ncclSuccess;
  if (comm->polls_left > 0) --comm->polls_left;
  return ncclSuccess;
}

ncclResult_t stub_CommCount(ncclComm_t comm, int* count) {
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *count = comm->ranks;
  return checked;
}

ncclResult_t stub_CommCuDevice(ncclComm_t comm, int* device) {
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *device = 0;
  return checked;
}

ncclResult_t stub_CommUserRank(ncclComm_t comm, int* rank) {
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *rank = comm->rank;
  return checked;
}

ncclResult_t stub_MemAlloc(void** pointer, size_t bytes) {
  *pointer = malloc(bytes);
  return *pointer != NULL ? ncclSuccess : fail(ncclSystemError, "out of memory");
}

ncclResult_t stub_MemFree(void* pointer) {
  free(pointer);
  return ncclSuccess;
}

ncclResult_t stub_CommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  (void)bytes;
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *handle = buffer;
  return checked;
}

ncclResult_t stub_CommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                     ncclWindow_t* window, int flags) {
  (void)bytes, (void)flags;
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *window = buffer;
  return checked;
}

ncclResult_t stub_WinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer) {
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *pointer = window;
  return checked;
}

ncclResult_t stub_RedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  (void)scalar, (void)type, (void)residence;
  const ncclResult_t checked = stub_check(comm);
  if (checked == ncclSuccess) *op = (ncclRedOp_t)(ncclNumOps + comm->reductions++);
  return checked;
}

/* As in NCCL, through the public name. */
ncclResult_t stub_Bcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t stub_GroupStart(void) {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t stub_GroupEnd(void) {
  if (group_depth == 0)
    return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart on this thread");
  if (--group_depth > 0) return ncclSuccess;
  int in_progress = 0;
  for (int i = 0; i < pending_count; ++i) {
    *pending[i].slot = pending[i].comm;
    in_progress |= pending[i].comm->polls_left > 0;
  }
  pending_count = 0;
  return in_progress ? ncclInProgress : ncclSuccess;
}

static void append(char* line, size_t* bytes, const char* text) {
  const size_t room = kReportBytesMax - *bytes;
  const int written = snprintf(line + *bytes, room, "%s", text);
  *bytes += written < 0 || (size_t)written >= room ? 0 : (size_t)written;
}

/* One write of one line, so that the lines of several copies and processes do not mix. */
__attribute__((destructor)) static void report(void) {
  const char* file = getenv("STUB_REPORT");
  if (file == NULL) return;
  Dl_info where;
  char line[kReportBytesMax], number[64];
  size_t bytes = 0;
  append(line, &bytes, "{\"name\": \"" STUB_NAME "\", \"path\": \"");
  append(line, &bytes, dladdr(&comms_used, &where) != 0 ? where.dli_fname : "");
  snprintf(number, sizeof number, "\", \"version\": %d, \"pid\": %d, \"calls\": {",
           stub_version_code, (int)getpid());
  append(line, &bytes, number);
  const char* separator = "\"";
  for (int i = 0; i < stub_function_count; ++i) {
    const unsigned long count = __atomic_load_n(&stub_counts[i], __ATOMIC_RELAXED);
    if (count == 0) continue;
    append(line, &bytes, separator);
    append(line, &bytes, stub_function_names[i]);
    snprintf(number, sizeof number, "\": %lu", count);
    append(line, &bytes, number);
    separator = ", \"";
  }
  append(line, &bytes, "}}\n");
  const int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  if (write(fd, line, bytes) != (ssize_t)bytes) bytes = 0;
  close(fd);
}

#ifdef STUB_FUTURE
/* A function of a release that Sabot does not know yet (case C7). */
STUB_EXPORT ncclResult_t ncclFromTheFuture(int value) {
  return value == 42 ? ncclSuccess : ncclInvalidArgument;
}
#endif
