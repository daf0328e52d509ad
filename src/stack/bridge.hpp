// The functions to which an entry can lead, as tables in the order of FunctionId.
#pragma once

#include "abi/api_table.hpp"

namespace sabot::stack {

// Through the layers (bridge.cpp): fills and numbers one Call, passes on what is not the
// application's (B8). kBridge leads to the engine of this process, kBesideBridge to the host engine
// beside a real one.
extern const abi::FunctionTable kBridge;
extern const abi::FunctionTable kBesideBridge;

// Past the layers (routes.cpp). kRouted: several copies of the library or another tool's wrapper,
// to the copy that the caller means.
extern const abi::FunctionTable kRouted;
// No layer, real engine: the functions that create something, so that a later copy is noticed, and
// GetLastError, which knows why a function is missing; the other slots are null.
extern const abi::FunctionTable kWatching;
// No layer, host engine: GetLastError, for a text that a withdrawn fault left behind.
extern const abi::FunctionTable kWatchingHost;
// Straight into the host engine's table, be it the engine of this process or not.
extern const abi::FunctionTable kHostDirect;
// No engine: every function refuses and says why (set_refusal).
extern const abi::FunctionTable kRefusing;
void set_refusal(const char* text);

// What host_function hands out: each jumps through its slot of host_entries (entries.hpp).
extern const abi::FunctionTable kHosted;

}  // namespace sabot::stack
