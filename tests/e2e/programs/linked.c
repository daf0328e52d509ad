/* A program that is linked to NCCL, or that NCCL is linked into: nccl-tests and the like. */
#include "session.h"

int main(void) {
  static const struct session_api api = SESSION_LINKED;
  return run_session(&api, "linked");
}
