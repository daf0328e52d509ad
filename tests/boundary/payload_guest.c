/* One rank that makes collective calls and prints all that it can see of them.
 *
 *     payload_guest RANK RANKS ID_FILE FUNCTION [key=value…]
 *
 * payload_test.py starts one process a rank and reads the lines: the result of each call, whether
 * the input is still what it was, every element of the output in hexadecimal, and whether any byte
 * beside the buffers was touched. After a failed call the communicator is aborted and the process
 * ends. Keys: count, datatype, redop, root, calls (how many, one after the other), group (how many
 * in one group), stream (1: on a stream of Sabot's), inplace, set (ELEMENT:HEX, put into the input
 * of the first call), shared (1: all ranks are communicators of this process, and this one calls;
 * for a library that waits for nobody), registered (1: the input is), oneinput (1: all calls have
 * that of the first), zero (1: the input is all zeros), rounds (each with a communicator of its
 * own, whatever became of the one before). Linked to the stand-in, as an application would be. */
#include <nccl.h>
#include <poll.h>
#include <sabot/stream.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kGuard = 64, kCallsMax = 4, kBufferMax = 4096, kRanksMax = 8 };

static struct {
  const char* function;
  int rank, ranks, root, calls, group, rounds, is_zero;
  int is_on_stream, is_in_place, is_shared, is_registered, has_one_input;
  size_t count;
  ncclDataType_t datatype;
  size_t element;
  ncclRedOp_t redop;
  const char* set;
} asked = {
    .calls = 1, .rounds = 1, .count = 8, .datatype = ncclFloat32, .element = 4, .redop = ncclSum};

struct buffers {
  unsigned char input[kGuard + kBufferMax + kGuard];
  unsigned char output[kGuard + kBufferMax + kGuard];
  unsigned char input_before[kBufferMax];
  unsigned char* send;
  unsigned char* recv;
  size_t send_elements, recv_elements;
};
static struct buffers all[kCallsMax];

static void need(int is_met, const char* what) {
  if (is_met) return;
  fprintf(stderr, "payload_guest: %s\n", what);
  exit(20);
}

static const struct {
  const char* name;
  ncclDataType_t type;
  size_t element;
} kTypes[] = {{"int8", ncclInt8, 1},         {"int32", ncclInt32, 4},
              {"int64", ncclInt64, 8},       {"float16", ncclFloat16, 2},
              {"float32", ncclFloat32, 4},   {"float64", ncclFloat64, 8},
              {"bfloat16", ncclBfloat16, 2}, {"float8e4m3", ncclFloat8e4m3, 1}};

static void read_type(const char* name) {
  for (size_t i = 0; i < sizeof kTypes / sizeof kTypes[0]; ++i) {
    if (strcmp(kTypes[i].name, name) != 0) continue;
    asked.datatype = kTypes[i].type;
    asked.element = kTypes[i].element;
    return;
  }
  need(0, name);
}

static void read_word(const char* word) {
  char key[16];
  const char* value = strchr(word, '=');
  need(value != NULL && (size_t)(value - word) < sizeof key, word);
  memcpy(key, word, (size_t)(value - word));
  key[value++ - word] = 0;
  const int number = atoi(value);
  if (strcmp(key, "count") == 0)
    asked.count = (size_t)number;
  else if (strcmp(key, "datatype") == 0)
    read_type(value);
  else if (strcmp(key, "redop") == 0)
    asked.redop = (ncclRedOp_t)number;
  else if (strcmp(key, "root") == 0)
    asked.root = number;
  else if (strcmp(key, "calls") == 0)
    asked.calls = number;
  else if (strcmp(key, "group") == 0)
    asked.group = number;
  else if (strcmp(key, "stream") == 0)
    asked.is_on_stream = number;
  else if (strcmp(key, "inplace") == 0)
    asked.is_in_place = number;
  else if (strcmp(key, "shared") == 0)
    asked.is_shared = number;
  else if (strcmp(key, "oneinput") == 0)
    asked.has_one_input = number;
  else if (strcmp(key, "zero") == 0)
    asked.is_zero = number;
  else if (strcmp(key, "rounds") == 0)
    asked.rounds = number;
  else if (strcmp(key, "registered") == 0)
    asked.is_registered = number;
  else if (strcmp(key, "set") == 0)
    asked.set = value;
  else
    need(0, word);
}

static int is(const char* function) { return strcmp(asked.function, function) == 0; }

static void size_buffers(struct buffers* it) {
  const size_t per_rank = asked.count * (size_t)asked.ranks;
  const int at_root = asked.rank == asked.root;
  it->send_elements = it->recv_elements = asked.count;
  if (is("AllGather") || is("AlltoAll")) it->recv_elements = per_rank;
  if (is("ReduceScatter") || is("AlltoAll")) it->send_elements = per_rank;
  if (is("Gather")) it->recv_elements = at_root ? per_rank : 0;
  if (is("Scatter")) it->send_elements = at_root ? per_rank : 0;
  if (is("Reduce")) it->recv_elements = at_root ? asked.count : 0;
  if (is("Broadcast")) it->send_elements = at_root ? asked.count : 0;
  need(it->send_elements * asked.element <= kBufferMax, "count is too large");
  need(it->recv_elements * asked.element <= kBufferMax, "count is too large");
}

/* Input of small whole numbers, so that sums are exact; the output starts as 0xee everywhere. */
static void fill(struct buffers* it, int call) {
  size_buffers(it);
  memset(it->input, 0xdd, sizeof it->input);
  memset(it->output, 0xee, sizeof it->output);
  it->send = it->input + kGuard;
  it->recv = asked.is_in_place ? it->send : it->output + kGuard;
  for (size_t i = 0; i < it->send_elements; ++i) {
    const float number = (float)(100 * (asked.rank + 1) + 10 * call + (int)(i % 10));
    const int32_t whole = (int32_t)number;
    unsigned char* at = it->send + i * asked.element;
    if (asked.datatype == ncclFloat32)
      memcpy(at, &number, sizeof number);
    else if (asked.datatype == ncclInt32)
      memcpy(at, &whole, sizeof whole);
    else
      memset(at, (int)(i % 50) + asked.rank, asked.element);
  }
  if (call == 0 && asked.set != NULL) {
    char* value = NULL;
    const size_t element = strtoul(asked.set, &value, 10);
    const uint64_t bits = strtoull(value + 1, NULL, 16);
    memcpy(it->send + element * asked.element, &bits, asked.element);
  }
  if (asked.is_zero) memset(it->send, 0, it->send_elements * asked.element);
  memcpy(it->input_before, it->send, kBufferMax);
}

static ncclResult_t make_call(struct buffers* it, ncclComm_t comm, cudaStream_t stream) {
  unsigned char* input = asked.has_one_input ? all[0].send : it->send;
  const void* send = it->send_elements == 0 ? NULL : input;
  void* recv = it->recv_elements == 0 ? NULL : it->recv;
  const size_t n = asked.count;
  const ncclDataType_t type = asked.datatype;
  const int root = asked.root;
  if (is("AllReduce")) return ncclAllReduce(send, recv, n, type, asked.redop, comm, stream);
  if (is("ReduceScatter")) return ncclReduceScatter(send, recv, n, type, asked.redop, comm, stream);
  if (is("Reduce")) return ncclReduce(send, recv, n, type, asked.redop, root, comm, stream);
  if (is("Broadcast")) return ncclBroadcast(send, recv, n, type, root, comm, stream);
  if (is("Gather")) return ncclGather(send, recv, n, type, root, comm, stream);
  if (is("Scatter")) return ncclScatter(send, recv, n, type, root, comm, stream);
  if (is("AllGather")) return ncclAllGather(send, recv, n, type, comm, stream);
  if (is("AlltoAll")) return ncclAlltoAll(send, recv, n, type, comm, stream);
  if (is("Ring")) {
    const ncclResult_t sent =
        ncclSend(it->send, n, type, (asked.rank + 1) % asked.ranks, comm, stream);
    const ncclResult_t received =
        ncclRecv(it->recv, n, type, (asked.rank + asked.ranks - 1) % asked.ranks, comm, stream);
    return sent != ncclSuccess ? sent : received;
  }
  need(0, asked.function);
  return ncclInternalError;
}

static void print_elements(const char* what, int call, const unsigned char* at, size_t elements) {
  printf("%s %d", what, call);
  for (size_t i = 0; i < elements; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, at + i * asked.element, asked.element);
    printf(" %llx", (unsigned long long)bits);
  }
  printf("\n");
}

static int is_filled(const unsigned char* at, size_t bytes, unsigned char with) {
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != with) return 0;
  return 1;
}

static void print_buffers(const struct buffers* it, int call) {
  const size_t sent = it->send_elements * asked.element;
  const size_t received = it->recv_elements * asked.element;
  const size_t in_input = asked.is_in_place && received > sent ? received : sent;
  const size_t in_output = asked.is_in_place ? 0 : received;
  const unsigned char* input_end = it->input + kGuard + in_input;
  const unsigned char* output_end = it->output + kGuard + in_output;
  print_elements("input", call, it->input + kGuard, it->send_elements);
  print_elements("output", call, it->recv, it->recv_elements);
  printf("input %s\n",
         memcmp(it->input + kGuard, it->input_before, sent) == 0 ? "same" : "changed");
  printf("guards %s\n",
         is_filled(it->input, kGuard, 0xdd) && is_filled(it->output, kGuard, 0xee) &&
                 is_filled(input_end, (size_t)(it->input + sizeof it->input - input_end), 0xdd) &&
                 is_filled(output_end, (size_t)(it->output + sizeof it->output - output_end), 0xee)
             ? "intact"
             : "touched");
}

static void share_id(const char* file, ncclUniqueId* id) {
  char name[520];
  snprintf(name, sizeof name, "%s.new", file);
  if (asked.rank == 0) {
    need(ncclGetUniqueId(id) == ncclSuccess, "no unique id");
    FILE* out = fopen(name, "w");
    need(out != NULL && fwrite(id, sizeof *id, 1, out) == 1 && fclose(out) == 0, name);
    need(rename(name, file) == 0, file);
    return;
  }
  for (int i = 0; i < 3000; ++i) { /* 30 s */
    FILE* in = fopen(file, "r");
    if (in != NULL) {
      need(fread(id, sizeof *id, 1, in) == 1, file);
      fclose(in);
      return;
    }
    poll(NULL, 0, 10);
  }
  need(0, "rank 0 left no unique id");
}

static ncclResult_t make_comm(ncclComm_t* comm, const char* id_file) {
  ncclComm_t comms[kRanksMax];
  ncclUniqueId id;
  if (!asked.is_shared) {
    share_id(id_file, &id);
    return ncclCommInitRank(comm, asked.ranks, id, asked.rank);
  }
  const ncclResult_t result = ncclCommInitAll(comms, asked.ranks, NULL);
  *comm = comms[asked.rank];
  return result;
}

static int failed(const char* what, int call, ncclResult_t result, ncclComm_t comm) {
  printf("%s %d result %d\n", what, call, result);
  if (result == ncclSuccess) return 0;
  printf("text %s\n", ncclGetLastError(comm));
  return 1;
}

/* The calls first … last of a group, or one call alone; true if something failed. */
static int make_calls(int first, int last, ncclComm_t comm, cudaStream_t stream) {
  int has_failed = 0;
  const int is_group = asked.group > 0 || is("Ring");
  if (is_group) need(ncclGroupStart() == ncclSuccess, "GroupStart");
  for (int i = first; i <= last && !has_failed; ++i)
    has_failed = failed("call", i, make_call(&all[i], comm, stream), comm);
  if (is_group) has_failed |= failed("group", last, ncclGroupEnd(), comm);
  if (!has_failed && stream != NULL)
    has_failed = failed("stream", last, sabot_stream_synchronize(stream), comm);
  for (int i = first; i <= last; ++i) print_buffers(&all[i], i);
  return has_failed;
}

/* All calls on a communicator of their own, which is destroyed, or aborted if something failed. */
static int run_round(int calls, const char* id_file, cudaStream_t stream) {
  ncclComm_t comm = NULL;
  void* handle = NULL;
  for (int i = 0; i < calls; ++i) fill(&all[i], i);
  if (failed("init", 0, make_comm(&comm, id_file), comm)) return 0;
  if (asked.is_registered)
    need(ncclCommRegister(comm, all[0].send, kBufferMax, &handle) == ncclSuccess, "CommRegister");
  int has_failed = 0;
  if (asked.group > 0) has_failed = make_calls(0, calls - 1, comm, stream);
  for (int i = 0; asked.group == 0 && i < calls && !has_failed; ++i)
    has_failed = make_calls(i, i, comm, stream);
  const char* end = has_failed ? "abort" : "destroy";
  return !failed(end, 0, has_failed ? ncclCommAbort(comm) : ncclCommDestroy(comm), NULL);
}

int main(int argc, char** argv) {
  need(argc > 4, "usage: payload_guest RANK RANKS ID_FILE FUNCTION [key=value…]");
  asked.rank = atoi(argv[1]);
  asked.ranks = atoi(argv[2]);
  asked.function = argv[4];
  for (int i = 5; i < argc; ++i) read_word(argv[i]);
  const int calls = asked.group > 0 ? asked.group : asked.calls;
  need(calls <= kCallsMax && asked.ranks <= kRanksMax, "too many calls or ranks");
  cudaStream_t stream = NULL;
  if (asked.is_on_stream) need(sabot_stream_create(&stream) == ncclSuccess, "no stream");
  for (int round = 0; round < asked.rounds; ++round) {
    char id_file[512];
    snprintf(id_file, sizeof id_file, "%s.%d", argv[3], round);
    printf("round %d\n", round);
    if (!run_round(calls, id_file, stream)) break;
  }
  if (stream != NULL) sabot_stream_destroy(stream);
  return 0;
}
