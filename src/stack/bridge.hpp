// The functions to which an entry can lead, as tables in the order of FunctionId.
#pragma once

#include "abi/api_table.hpp"

namespace sabot::stack {

// Through the layers: fills and numbers one Call, passes on what is not the application's (B8).
extern const abi::FunctionTable kBridge;
// No layer, several copies of the library or another tool's wrapper: to the copy that the caller
// means.
extern const abi::FunctionTable kRouted;
// No layer: the functions that create something, so that a later copy is noticed, and GetLastError,
// which knows why a function is missing; the other slots are null.
extern const abi::FunctionTable kWatching;
// No layer, host engine: straight into its table.
extern const abi::FunctionTable kHostDirect;
// No engine: every function refuses and says why (set_refusal).
extern const abi::FunctionTable kRefusing;
void set_refusal(const char* text);

}  // namespace sabot::stack
