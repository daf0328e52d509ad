/* The one stack of a process, for the libraries of Sabot that find each other in it.
 *
 * Each of our libraries exports sabot_stack_v1(). The copy that was loaded first owns the stack;
 * the others forward their entries to its pncclX functions. Everything returned is constant and
 * lives as long as the library; sabot_stack_v1() may be called from any thread and opens nothing.
 * C99. */
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

  /* The functions that work on memory of the CPU, whatever engine this process has: a program on a
   * GPU machine, whose ncclX lead to NVIDIA's library, finds the host engine here beside it.
   *
   *   "ncclX"    function X of the host engine under the layers of this process: its calls are
   *              numbered, labelled, logged and faulted like any, by the same faults plan, journal
   *              and counters. While no layer is active it leads straight to the engine.
   *   "pncclX"   the same beneath the layers: never numbered, logged or faulted, and a communicator
   *              made by it has no label until an ncclX meets it.
   *   "sabot_Y"  any other function that this library exports.
   *
   * NULL for another name. Communicators of the host engine belong to these functions only, and
   * those of a real NCCL never do. Opens the stack; where another copy owns it, the answer is the
   * owner's, NULL if that one is too old. The first call makes the stack follow communicators and
   * groups even while no layer is active, so that a fault injected later finds their labels
   * (sabot/fault.h). Any thread. Compare size first: older libraries end with `library`. */
  void* (*host_function)(const char* name);
} sabot_stack_info_t;

const sabot_stack_info_t* sabot_stack_v1(void);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_STACK_H_ */
