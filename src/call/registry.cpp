// Records of communicators: labels, ranks, counters.
#include "call/registry.hpp"

#include <cstdio>
#include <cstring>

#include "base/random.hpp"
#include "call/thread_state.hpp"

namespace sabot::call {
namespace {

void copy_text(char* out, std::size_t size, const char* text) {
  std::snprintf(out, size, "%s", text == nullptr ? "" : text);
}

}  // namespace

Registry::~Registry() {
  for (auto& bucket : buckets_) {
    for (CommRecord* record = bucket.load(); record != nullptr;) {
      CommRecord* next = record->next_in_bucket;
      delete record;
      record = next;
    }
  }
}

std::size_t Registry::bucket_of(const void* handle) {
  return mix(reinterpret_cast<std::uintptr_t>(handle)) % kBuckets;
}

CommRecord* Registry::lookup(const void* handle) const noexcept {
  // pairs with: create (publishes a finished record)
  CommRecord* record = buckets_[bucket_of(handle)].load(std::memory_order_acquire);
  while (record != nullptr && record->handle != handle) record = record->next_in_bucket;
  return record;
}

CommRecord* Registry::find(const void* handle) const noexcept {
  if (handle == nullptr) return nullptr;
  CommRecord* record = lookup(handle);
  // pairs with: create, retire
  return record != nullptr && record->live.load(std::memory_order_acquire) ? record : nullptr;
}

bool Registry::is_retired(const void* handle) const noexcept {
  const CommRecord* record = handle == nullptr ? nullptr : lookup(handle);
  return record != nullptr && !record->live.load(std::memory_order_acquire);  // pairs with: retire
}

// Roots are numbered by their id where there is one, so that several ranks of one communicator held
// by one process share a label.
int Registry::root_index(std::uint64_t identity, CommRecord& record, bool& first_of_process) {
  first_of_process = true;
  for (Root& root : roots_) {
    if (identity == 0 || root.identity != identity) continue;
    first_of_process = false;
    // The process holds several ranks of this communicator: the environment's rank names the
    // process.
    root.first->world_rank.store(root.first->rank.load());
    return root.index;
  }
  roots_.push_back({identity, next_root_, &record});
  return next_root_++;
}

CommRecord& Registry::create(const Birth& birth) {
  const std::lock_guard lock(mutex_);
  CommRecord* record = lookup(birth.handle);
  const bool is_new = record == nullptr;
  if (is_new) record = new CommRecord();
  record->handle = birth.handle;
  record->rank.store(birth.rank);
  record->ranks.store(birth.ranks);
  record->nonblocking = birth.nonblocking;
  record->lane = birth.lane;
  record->target = birth.target;
  record->identity = birth.identity;
  record->children.store(0);
  record->collectives.store(0);
  for (auto& counter : record->nth) counter.store(0);
  copy_text(record->name, sizeof record->name, birth.name);
  if (birth.parent != nullptr) {
    std::snprintf(record->label, sizeof record->label, "%.38s/s%u", birth.parent->label,
                  birth.child_number);
    record->world_rank.store(birth.parent->world_rank.load());
  } else {
    bool first = true;
    const int index = root_index(birth.identity, *record, first);
    std::snprintf(record->label, sizeof record->label, "c%d", index);
    const bool by_environment = first && environment_rank_ >= 0;
    record->world_rank.store(by_environment ? environment_rank_ : birth.rank);
  }
  record->live.store(true, std::memory_order_release);  // pairs with: find
  if (is_new) {
    auto& bucket = buckets_[bucket_of(birth.handle)];
    record->next_in_bucket = bucket.load(std::memory_order_relaxed);
    bucket.store(record, std::memory_order_release);  // pairs with: lookup
  }
  return *record;
}

void Registry::retire(const void* handle) noexcept {
  if (CommRecord* record = find(handle)) record->live.store(false, std::memory_order_release);
}

// Ranks of one process share a label.
bool Registry::has_sibling(const void* handle) const noexcept {
  const CommRecord* own = find(handle);
  if (own == nullptr) return false;
  for (const auto& bucket : buckets_)
    // pairs with: create
    for (const CommRecord* record = bucket.load(std::memory_order_acquire); record != nullptr;
         record = record->next_in_bucket)
      if (record != own && record->live.load() && record->lane == own->lane &&
          std::strcmp(record->label, own->label) == 0)
        return true;
  return false;
}

void Registry::revive(const void* handle) noexcept {
  if (CommRecord* record = handle == nullptr ? nullptr : lookup(handle)) record->live.store(true);
}

void Registry::ask_ranks(CommRecord& record, const abi::Api& engine, abi::Call& call) {
  const KeepErrno keep;
  auto* comm = static_cast<ncclComm_t>(const_cast<void*>(record.handle));
  int rank = -1;
  int ranks = 0;
  if (engine.table->CommUserRank(engine.self, &call, comm, &rank) != ncclSuccess) return;
  if (engine.table->CommCount(engine.self, &call, comm, &ranks) != ncclSuccess) return;
  record.ranks.store(ranks);
  record.rank.store(rank);
  if (record.world_rank.load() < 0) record.world_rank.store(rank);
}

void Registry::forget_all() noexcept {
  for (auto& bucket : buckets_)
    for (CommRecord* record = bucket.load(); record != nullptr; record = record->next_in_bucket)
      record->live.store(false);
}

}  // namespace sabot::call
