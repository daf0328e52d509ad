// The tables through which the functions that we hand out jump: sabot_entries, host_entries.
//
// entries.S (generated) makes pncclX and ncclX one indirect jump through its slot; slots begin at
// first_use.S and are filled once, when the stack opens. host_entries is the same for the functions
// that host_function gives: where the host engine is not the process's, they lead elsewhere. A slot
// is one aligned pointer: it may be rewritten while other threads jump through it.
#pragma once

#include <array>
#include <atomic>

#include "abi/api_table.hpp"

extern "C" {
extern void* sabot_entries[sabot::abi::kFunctionCount];
// Opens the stack on the first call of this process and returns where the call goes on. Never null.
void* sabot_first_use_target(unsigned index) noexcept;
}

namespace sabot::stack {

inline void publish(std::size_t index, void* target) {
  // pairs with: sabot_first_use_target, and the jumps of entries.S: what the target reads was
  // written before.
  std::atomic_ref<void*>(sabot_entries[index]).store(target, std::memory_order_release);
}

inline void publish_all(const abi::FunctionTable& functions) {
  for (std::size_t i = 0; i < abi::kFunctionCount; ++i) publish(i, functions.by_id[i]);
}

inline std::array<std::atomic<void*>, abi::kFunctionCount> host_entries{};

inline void publish_host(const abi::FunctionTable& functions) {
  for (std::size_t i = 0; i < abi::kFunctionCount; ++i)
    host_entries[i].store(functions.by_id[i],
                          std::memory_order_release);  // pairs with: SABOT_HOSTED
}

}  // namespace sabot::stack
