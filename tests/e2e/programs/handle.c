/* Opens NCCL by the name or path on its command line and calls it through the handle: CuPy, vLLM,
 * XLA. */
#include <dlfcn.h>

#include "session.h"

static void* handle;

static void* find(const char* name) {
  void* function = dlsym(handle, name);
  if (function == NULL) fprintf(stderr, "handle: %s\n", dlerror());
  return function;
}

#define FIND(name) *(void**)(&api.name) = find("nccl" #name)

int main(int count, char** arguments) {
  struct session_api api;
  handle = dlopen(count > 1 ? arguments[1] : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "handle: %s\n", dlerror());
    return 2;
  }
  FIND(GetVersion);
  FIND(GetUniqueId);
  FIND(CommInitRank);
  FIND(CommCount);
  FIND(AllReduce);
  FIND(Bcast);
  FIND(GroupStart);
  FIND(GroupEnd);
  FIND(CommDestroy);
  FIND(GetLastError);
  return run_session(&api, "handle");
}
