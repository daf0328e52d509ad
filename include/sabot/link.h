/* What happens to the links of this process right now: for libraries that carry bytes to peers.
 *
 * A fault with the action `link` (a scenario, an injection) leaves a rule here. Whoever moves the
 * bytes asks for the rule of a peer and acts on it; libnccl-net-sabot.so does, below NVIDIA's
 * library. Nothing is ever called back: a carrier compares the generation before it moves
 * something, which costs one load, and asks again when that has changed.
 *
 * Any thread may call any function here at any time; they wait for nothing and fail never. Taken by
 * name from sabot_stack_info_t.host_function, so that a carrier works in processes without Sabot.
 * C99. */
#ifndef SABOT_LINK_H_
#define SABOT_LINK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is done to the messages between this rank and one peer; effects of several rules add up. */
enum {
  SABOT_LINK_DROP = 1,      /* what this rank sends from now on is lost, and counts as sent */
  SABOT_LINK_DELAY = 2,     /* what this rank sends leaves delay_ns later; the order stays */
  SABOT_LINK_THROTTLE = 4,  /* this rank sends at most rate_bytes_per_s to this peer */
  SABOT_LINK_CUT = 8,       /* the connection ends with an error on both sides */
  SABOT_LINK_PARTITION = 16 /* nothing passes in either direction; nothing is lost: it goes on
                               when the partition ends */
  /* Effects are added. A carrier ignores those that it does not know. */
};

typedef struct sabot_link_query {
  size_t size;         /* sizeof(sabot_link_query_t) */
  int world_rank;      /* whose link; -1: not known, then rules for any rank of this process hold */
  int peer_world_rank; /* to whom; -1: not known, then only rules for all peers hold */
} sabot_link_query_t;

typedef struct sabot_link_rule {
  size_t size;       /* set by the caller: sizeof(sabot_link_rule_t); fields are only ever added */
  uint32_t effects;  /* SABOT_LINK_…, or-ed; 0: none */
  uint64_t delay_ns; /* the sum of all delays */
  uint64_t rate_bytes_per_s; /* the smallest */
  uint64_t until_ns; /* CLOCK_MONOTONIC: from then on the answer is another one, although the
                        generation stays; 0: not before it changes */
  char fault[64];    /* the fault that made the strongest effect, for messages; "" = none */
} sabot_link_rule_t;

/* Changes whenever an answer of sabot_link_rule_for may have changed for a reason other than time.
 */
uint64_t sabot_link_generation(void);

/* Fills in the rule; without faults one with no effects. Returns 0, or -1 for a size that is none,
 * which leaves the rule as it was. */
int sabot_link_rule_for(const sabot_link_query_t* query, sabot_link_rule_t* rule);

#ifdef __cplusplus
}
#endif

#endif /* SABOT_LINK_H_ */
