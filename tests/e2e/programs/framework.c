/* A library that uses NCCL, as libtorch_cuda.so does; its program opens it with dlopen, as Python
 * does. */
#include "session.h"

__attribute__((visibility("default"))) int framework_session(const char* name);

int framework_session(const char* name) {
  static const struct session_api api = SESSION_LINKED;
  return run_session(&api, name);
}
