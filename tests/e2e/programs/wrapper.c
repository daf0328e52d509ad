/* Another tool's wrapper around NCCL (case C5): it counts two functions and passes them on.
 *
 * Two habits of such tools: the next definition in the loader's order (RTLD_NEXT), or a handle that
 * is opened by name (-DBY_NAME). At exit it appends "wrapper AllReduce=N GroupStart=N" to the file
 * in WRAPPER_REPORT.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kDepthMax = 64 };
static unsigned long all_reduces, group_starts;
static __thread int depth;

static void* next(const char* name) {
#ifdef BY_NAME
  return dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), name);
#else
  return dlsym(RTLD_NEXT, name);
#endif
}

EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream) {
  ncclResult_t (*function)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t);
  ++all_reduces;
  *(void**)(&function) = next("ncclAllReduce");
  if (function == NULL || ++depth > kDepthMax) {
    fprintf(stderr, "wrapper: no next ncclAllReduce, or it leads back here\n");
    _exit(70);
  }
  const ncclResult_t result = function(send, receive, count, type, op, comm, stream);
  --depth;
  return result;
}

EXPORT ncclResult_t ncclGroupStart(void) {
  ncclResult_t (*function)(void);
  ++group_starts;
  *(void**)(&function) = next("ncclGroupStart");
  if (function == NULL || ++depth > kDepthMax) {
    fprintf(stderr, "wrapper: no next ncclGroupStart, or it leads back here\n");
    _exit(70);
  }
  const ncclResult_t result = function();
  --depth;
  return result;
}

__attribute__((destructor)) static void report(void) {
  const char* file = getenv("WRAPPER_REPORT");
  if (file == NULL) return;
  char line[128];
  const int bytes = snprintf(line, sizeof line, "wrapper AllReduce=%lu GroupStart=%lu\n",
                             all_reduces, group_starts);
  const int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  if (write(fd, line, (size_t)bytes) != bytes) _exit(71);
  close(fd);
}
