// Proves one schedule correct by running all its ranks on symbols instead of numbers.
//
// Every element of every input is a term; a reduction concatenates terms in order. At the end each
// output element must be exactly the terms that the collective defines, reduced in the same order
// wherever it appears. On the way, every rule of schedule.hpp is checked: slots are not overwritten
// while somebody still has to read them, messages are read once by whom they were put for, no part
// is read that was not written, nothing is left over, and no rank waits for ever. Since steps block
// only on messages and on free slots, one execution order that ends proves that all do.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "schedule/schedule.hpp"

namespace sabot::schedule {

struct CheckOptions {
  std::uint32_t slots = 4;
  std::uint64_t slot_bytes = 256 * 1024;
  bool in_place = false;  // buffers alias as NCCL defines for this collective
};

// request.rank is ignored. The error (kInternal) says which rank, which step and which rule.
Status check(const Request& request, const Plan& plan, const CheckOptions& options);

}  // namespace sabot::schedule
