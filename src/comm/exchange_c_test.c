/* sabot/exchange.h as a C99 program sees it; run by exchange_test.cpp. */
#include <sabot/exchange.h>
#include <stddef.h>
#include <string.h>

const char* sabot_exchange_c_test(ncclComm_t zero, ncclComm_t one);

/* With the two ranks of a communicator: NULL, or what is wrong. */
const char* sabot_exchange_c_test(ncclComm_t zero, ncclComm_t one) {
  const char said[] = "from C";
  char heard[sizeof said] = {0};
  size_t moved = 99;
  uint64_t number = 99;
  sabot_wait_t wait;
  if (sabot_channel_take(one, 0, heard, sizeof heard, &moved) != ncclSuccess || moved != 0)
    return "something was there";
  if (sabot_channel_put(zero, 1, said, sizeof said, &moved) != ncclSuccess || moved != sizeof said)
    return "nothing was put";
  sabot_wait_begin(&wait, one);
  while (!sabot_channel_ready(one, 0)) sabot_wait_pause(&wait);
  sabot_wait_end(&wait);
  if (sabot_channel_take(one, 0, heard, 3, &moved) != ncclSuccess || moved != 3) return "not 3";
  if (sabot_channel_take(one, 0, heard + 3, 100, &moved) != ncclSuccess || moved != 4)
    return "not the rest";
  if (strcmp(said, heard) != 0) return "it changed on the way";
  if (sabot_comm_entered(one, 0, &number) != ncclSuccess || number != 0) return "not at 0";
  if (sabot_comm_fail(one, 0, "C has enough") != ncclSuccess) return "cannot fail";
  if (sabot_channel_put(zero, 1, said, 1, &moved) != ncclRemoteError || moved != 0)
    return "did not fail";
  return NULL;
}
