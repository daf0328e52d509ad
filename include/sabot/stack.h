/* The one stack of a process, for the libraries of Sabot that find each other in it.
 *
 * Each of our libraries exports sabot_stack_v1(). The copy that was loaded first owns the stack;
 * the others forward their entries to its pncclX functions. Everything returned is constant and
 * lives as long as the library; the function may be called from any thread and opens nothing. C99.
 */
#ifndef SABOT_STACK_H_
#define SABOT_STACK_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sabot_stack_info {
  size_t size; /* of this struct, in the library that filled it: fields are only ever added */
  const char* version; /* "0.1.0" */
  const char* library; /* "preload" or "stand-in" */
} sabot_stack_info_t;

const sabot_stack_info_t* sabot_stack_v1(void);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_STACK_H_ */
