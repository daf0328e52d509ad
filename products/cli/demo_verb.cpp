// `sabot demo`: a fault, seen from the inside and the outside.
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"

namespace sabot::cli {

int demo_verb(const Words& words) {
  (void)words;
  return 1;
}

}  // namespace sabot::cli
