/* Faults for code that is not NCCL, and faults that a program injects while it runs.
 *
 * A library that executes collectives by itself (over Gloo, by messages) announces its
 * communicators and each call; they then have the labels, numbers, log lines, faults and journal
 * lines of NCCL's own. And a program may arm faults beside those of the run, and take them back.
 *
 * With SABOT_DISABLE set announced calls get no number and no fault, and an injection is refused.
 * Any thread may call any function here at any time unless stated otherwise; a text that is
 * returned belongs to the library. C99. */
#ifndef SABOT_FAULT_H_
#define SABOT_FAULT_H_

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Communicators that NCCL does not know ---- */

typedef struct sabot_comm_info {
  size_t size;     /* sizeof(sabot_comm_info_t) */
  const void* key; /* any address that is the caller's own while it is open; never read */
  int rank;        /* 0 to ranks - 1 */
  int ranks;
  uint64_t identity;  /* equal for all ranks of one communicator, different for all others, earlier
                         ones too: ranks in one process share a label by it; 0: not known */
  const char* name;   /* for triggers and journal, cut after 63 bytes; NULL: none */
  const void* parent; /* a key or ncclComm_t that this one is a part of ("c0/s0"); NULL: none */
} sabot_comm_info_t;

/* Labels the communicator: c0, c1, … in order of creation, counted together with those of NCCL.
 * ncclInvalidArgument: a field is wrong, the key is open or the parent is unknown; ncclGetLastError
 * has the text. */
ncclResult_t sabot_comm_open(const sabot_comm_info_t* info);
/* Calls on it are refused from now on; the key may be opened again. ncclInvalidArgument: it is not
 * open, or NCCL made it. */
ncclResult_t sabot_comm_close(const void* key);

/* ---- Calls that NCCL does not execute ----
 *
 *   sabot_call_t call = {.size = sizeof call, .function = "AllReduce", .comm = key, ...};
 *   sabot_decision_t decision = {.size = sizeof decision};
 *   if (sabot_call_enter(&call, &decision) != ncclSuccess) ...
 *   ncclResult_t result = decision.before ? ncclSuccess : execute();
 *   result = sabot_call_leave(&call, result);
 */

typedef struct sabot_call {
  size_t size;          /* sizeof(sabot_call_t) */
  const char* function; /* of NCCL, with or without the prefix: "AllReduce" */
  const void* comm;     /* a key, or an ncclComm_t that passed through this library; NULL: none */
  uint64_t count;       /* as NCCL's function takes it, e.g. per rank for AllGather */
  int datatype;         /* ncclDataType_t; -1: none of NCCL's, then bytes is taken as given */
  uint64_t bytes;       /* else sabot_call_enter sets it: count times the size of datatype */
  int redop;            /* ncclRedOp_t; -1: none */
  int root;             /* -1: none */
  int peer;             /* -1: none */
  const void* send;     /* NULL: unknown; equal to recv: in place */
  void* recv;
  const void* stream;

  /* Set by sabot_call_enter. Where comm is NULL (CommInitRank), rank and ranks are the caller's. */
  int rank;                /* in comm */
  int ranks;               /* of comm */
  uint64_t nth;            /* this is the n-th call of this function on this comm; 0: not numbered
                              (disabled, or announced within another call) */
  uint64_t nth_collective; /* this is the n-th collective on this comm; 0: it is none */
  const char* comm_label;  /* "c0"; "": no comm */

  uint64_t opaque[48]; /* from sabot_call_enter until sabot_call_leave; not to be touched */

  int memory; /* sabot_memory_t; set by the caller. Older callers end with opaque. */
} sabot_call_t;

typedef enum sabot_memory {
  SABOT_MEMORY_UNKNOWN = 0, /* no fault touches the data */
  /* send and recv are memory of this process, each in one piece, as large as the function takes
   * them by count: faults may change elements of theirs (SABOT_DECISION_DATA). */
  SABOT_MEMORY_HOST = 1
} sabot_memory_t;

typedef enum sabot_decision_kind {
  SABOT_DECISION_NONE = 0,
  SABOT_DECISION_ERROR = 1, /* result is what the call returns */
  SABOT_DECISION_SKIP = 2,  /* do not execute, report success: peers wait for this rank */
  SABOT_DECISION_DATA = 3,  /* execute, to its end before sabot_call_leave: elements of send were
                               changed and come back there, or those of recv are changed there */
  /* Kinds are added. Who meets one that it does not know refuses the call and names it. */
} sabot_decision_kind_t;

typedef struct sabot_decision {
  size_t size;         /* sizeof(sabot_decision_t) */
  int kind;            /* sabot_decision_kind_t */
  ncclResult_t result; /* ncclSuccess for SABOT_DECISION_NONE */
  int before;          /* 1: do not execute; 0: execute, to its end if kind is not NONE */
  const char* text;    /* what ncclGetLastError says; valid until this thread enters again; "" */
} sabot_decision_t;

/* Numbers the call, logs it, lets the faults decide, and journals those that fire. Delays, hangs
 * and crashes before the call act in here: this waits as long as a fault says, until the
 * communicator is closed or its CommAbort, CommDestroy or CommFinalize is announced (then the call
 * is not to be made and ncclInternalError is what it returns), or until `sabot ctl release`.
 * Otherwise it waits for nothing. Faults that take other arguments (mismatch) or act below the call
 * (link) do nothing here, and their journal line says so.
 *
 * Calls are announced one by one: groups are NCCL's own affair, and GroupStart and GroupEnd are
 * refused. From here to sabot_call_leave this thread is inside: calls of NCCL that it makes
 * meanwhile, and calls announced meanwhile, belong to this one and are neither numbered nor
 * faulted. (Calls that other threads make on its behalf are; docs/limits.md.)
 *
 * ncclInvalidArgument: unknown function, unknown comm, or a size that is none: nothing was entered,
 * ncclGetLastError has the text. ncclSystemError: this process has no engine at all. */
ncclResult_t sabot_call_enter(sabot_call_t* call, sabot_decision_t* decision);

/* Ends what sabot_call_enter began, in the same thread; calls are left in reverse order. result:
 * what executing it returned, ncclSuccess if it was not executed. Returns what the application is
 * to be given: the fault's result where one fired (an `after` fault only if result is success),
 * else result. An error is logged. ncclInvalidUsage: this call was not entered by this thread. */
ncclResult_t sabot_call_leave(sabot_call_t* call, ncclResult_t result);

/* ---- Faults at run time ----
 *
 * They work for announced calls and for calls of NCCL that pass through this library. A call of
 * NCCL that was made while neither a layer nor an injection was active is not numbered, and a
 * communicator that was made before this header or sabot_stack_info_t.host_function was first used
 * gets its label when it is first met. */

typedef struct sabot_firing {
  size_t size;              /* of this struct, in the library: fields are only ever added */
  uint64_t injection;       /* the id that sabot_fault_inject gave */
  const char* fault;        /* its name */
  const char* function;     /* "AllReduce" */
  const char* comm_label;   /* "c0", "": none */
  int rank;                 /* in the comm, else in the world; -1: unknown */
  uint64_t nth;             /* of the call, on its comm */
  uint64_t nth_collective;  /* 0: not a collective */
  uint64_t match;           /* of the fault: it is the n-th call that meets its conditions */
  ncclResult_t result;      /* the code of an error, else ncclSuccess */
  const char* journal_line; /* all there is to know of it, as one JSON object without a newline */
} sabot_firing_t;

/* Called for each firing, in the faulted thread, after the journal was written and before the fault
 * acts. The firing is valid during the call. It must return; it may call NCCL (unnumbered) and the
 * functions of this header. */
typedef void (*sabot_fired_fn)(void* user, const sabot_firing_t* firing);

/* Arms faults from now until they are withdrawn. text is a scenario (TOML, a document with
 * `sabot = 1` and [[fault]] tables) or one line as in SABOT_FAULT:
 *
 *   AllReduce[rank=1,nth=3]=error(SystemError)
 *
 * nth, range, every and `after` count from here. A budget holds for this process. Where this
 * process and the injection have faults for the same call, those of the process come first, then
 * injections in order: one that takes the call's place (an error, say) acts, others of that kind
 * count the call without firing. A run
 * folder gets the journal lines too. fired may be NULL. A forked child has no injections of its
 * parent.
 *
 * *id identifies them, 1 and above. On failure error_text (may be NULL) gets why, cut to error_size
 * bytes with its end: ncclInvalidArgument for a text that is no scenario, with line and key;
 * ncclInvalidUsage for a condition that this build cannot decide, and if Sabot is disabled;
 * ncclSystemError if there is no engine. */
ncclResult_t sabot_fault_inject(const char* text, sabot_fired_fn fired, void* user, uint64_t* id,
                                char* error_text, size_t error_size);

/* Disarms them. *fired_count is how often they fired in all; why_not gets, for each that never did,
 * a line that says what came closest ("" if all fired). Both may be NULL. After this the callback
 * is not running and will not run: the call waits for threads that are in it, except its own, up to
 * 10 seconds; then it returns ncclInProgress, they are disarmed, and user must stay valid.
 * ncclInvalidArgument: there is no such injection (any more). */
ncclResult_t sabot_fault_withdraw(uint64_t id, uint64_t* fired_count, char* why_not,
                                  size_t why_not_size);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_FAULT_H_ */
