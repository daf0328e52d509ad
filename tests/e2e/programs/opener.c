/* Opens libraries RTLD_LOCAL in the given order and runs the session of those that have one.
 *
 *   opener FILE…     FILE is opened; if it has framework_session, that runs afterwards, in the same
 * order
 *
 * Opening a libnccl by its absolute path before a framework is what newer frameworks do.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** files) {
  void* handles[16] = {0};
  for (int i = 1; i < count && i < 16; ++i) {
    handles[i] = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (handles[i] == NULL) {
      fprintf(stderr, "opener: %s\n", dlerror());
      return 2;
    }
  }
  int status = 0;
  for (int i = 1; i < count && i < 16; ++i) {
    int (*session)(const char*) = (int (*)(const char*))dlsym(handles[i], "framework_session");
    if (session != NULL) status |= session(files[i]);
  }
  return status;
}
