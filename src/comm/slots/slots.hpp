// One function per slot of the API table, declared from the API's list.
#pragma once

#include "abi/api_table.hpp"
#include "comm/options.hpp"

namespace sabot::comm::slots {

#define SABOT_SLOT(name, ret) ret name(void* self, abi::Call* call SABOT_TAIL_PARAMS_##name);
SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT

inline const Options& options_of(void* self) { return *static_cast<const Options*>(self); }

}  // namespace sabot::comm::slots
