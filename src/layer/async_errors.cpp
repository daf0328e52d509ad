// A fixed table; an entry belongs to who put its communicator there first.
#include "layer/async_errors.hpp"

#include <algorithm>
#include <cstring>

#include "call/last_error.hpp"
#include "run/identity.hpp"

namespace sabot::layer {

bool AsyncErrors::set(const void* comm, ncclResult_t result, std::uint64_t due_ns, bool is_latched,
                      std::string_view text) {
  for (Entry& entry : entries_) {
    const void* expected = nullptr;
    if (entry.comm.load() != comm && !entry.comm.compare_exchange_strong(expected, comm)) continue;
    if (entry.is_latched.load()) return true;  // the first one stands, as in NCCL
    entry.due_ns.store(due_ns);
    entry.result.store(result);
    if (!is_latched) return true;
    const std::size_t length = std::min(text.size(), kTextMax - 1);
    std::memcpy(entry.text.data(), text.data(), length);
    entry.text[length] = '\0';
    entry.is_latched.store(true);
    latched_.fetch_add(1);
    return true;
  }
  return false;
}

void AsyncErrors::forget(const void* comm) {
  for (Entry& entry : entries_) {
    if (entry.comm.load() != comm) continue;
    entry.result.store(ncclSuccess);
    if (entry.is_latched.exchange(false)) latched_.fetch_sub(1);
    entry.comm.store(nullptr);
  }
}

const AsyncErrors::Entry* AsyncErrors::due(const void* comm) const {
  for (const Entry& entry : entries_) {
    if (entry.comm.load() != comm) continue;
    const std::uint64_t due_ns = entry.due_ns.load();
    return due_ns == 0 || run::now().monotonic_ns >= due_ns ? &entry : nullptr;
  }
  return nullptr;
}

ncclResult_t AsyncErrors::polled(const void* comm) const {
  const Entry* entry = comm == nullptr ? nullptr : due(comm);
  return entry == nullptr ? ncclSuccess : static_cast<ncclResult_t>(entry->result.load());
}

ncclResult_t AsyncErrors::enqueued(const void* comm) const {
  const Entry* entry = comm == nullptr ? nullptr : due(comm);
  if (entry == nullptr || !entry->is_latched.load()) return ncclSuccess;
  call::set_last_error(entry->text.data());
  return static_cast<ncclResult_t>(entry->result.load());
}

}  // namespace sabot::layer
