// ncclConfig_t as the caller passes it: any older or newer layout, checked, with what we act on.
#pragma once

#include <nccl.h>

#include <string>

#include "base/result.hpp"

namespace sabot::comm {

struct CommConfig {
  bool blocking = true;
  std::string name;  // commName, for messages
};

// Fields that the caller's struct does not have, or leaves undefined, keep the inherited value.
// Null gives the inherited configuration. What only a GPU could act on is checked and ignored.
// InvalidArgument: not initialised, or a value out of range.
Result<CommConfig> read_config(const ncclConfig_t* config, const CommConfig& inherited);

}  // namespace sabot::comm
