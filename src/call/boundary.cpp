// Numbering, group bookkeeping, births and deaths of communicators.
#include "call/boundary.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

#include "abi/names.hpp"
#include "base/random.hpp"

namespace sabot::call {
namespace {

using abi::FunctionId;
using abi::Kind;

// A communicator whose handle is not usable before the group ends.
struct PendingBirth {
  ncclComm_t* where;
  Birth birth;
};
thread_local std::vector<PendingBirth>* pending_births = nullptr;

bool succeeded(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// A field of the caller's config that may be shorter or longer than ours (B4).
template <typename T>
T config_field(const ncclConfig_t* config, std::size_t offset, T fallback) {
  if (config == nullptr || config->magic != NCCL_API_MAGIC || config->size < offset + sizeof(T))
    return fallback;
  T value;
  __builtin_memcpy(&value, reinterpret_cast<const char*>(config) + offset, sizeof value);
  return value;
}

std::uint64_t identity_of(const ncclUniqueId* id) {
  if (id == nullptr) return 0;
  return hash_text(std::string_view(id->internal, sizeof id->internal));
}

}  // namespace

CommRecord* Boundary::find_or_adopt(const abi::Call& call) {
  const KeepErrno keep;
  if (CommRecord* record = registry_.find(call.comm)) return record;
  // Destroyed handles keep no record, so that the engine's own answer reaches the caller untouched.
  if (registry_.is_retired(call.comm)) return nullptr;
  Birth birth;
  birth.handle = call.comm;
  birth.lane = call.lane;
  birth.target = call.target;
  return &registry_.create(birth);
}

void Boundary::enter_group_fields(abi::Call& call, OpenGroup& open) {
  call.group = open.number;
  if (abi::enqueues(abi::info(call.function).kind)) call.group_position = ++open.position;
}

void Boundary::close_group(const abi::Call& call, ThreadState& thread, ncclResult_t result) {
  const KeepErrno keep;
  OpenGroup& open = open_group(call, thread);
  if (open.depth > 0) --open.depth;
  if (open.depth > 0 || pending_births == nullptr) return;
  for (const PendingBirth& pending : *pending_births) {
    if (pending.birth.lane != call.lane || !succeeded(result) || *pending.where == nullptr)
      continue;
    Birth birth = pending.birth;
    birth.handle = *pending.where;
    registry_.create(birth);
  }
  std::erase_if(*pending_births,
                [&call](const PendingBirth& pending) { return pending.birth.lane == call.lane; });
}

void Boundary::leave(const abi::Call& call, ThreadState& thread, ncclResult_t result) {
  // The library's own text is newer than ours, unless ours was set by this very call.
  if (!succeeded(result) && !call.injected && thread.error_texts == last_error_count())
    clear_last_error();
  switch (call.function) {
    case FunctionId::kGroupStart:
      if (!succeeded(result)) return;
      if (OpenGroup& open = open_group(call, thread); open.depth++ == 0) {
        open.number = ++thread.groups;
        open.position = 0;
      }
      return;
    case FunctionId::kGroupEnd:
    case FunctionId::kGroupSimulateEnd: close_group(call, thread, result); return;
    case FunctionId::kCommDestroy:
    case FunctionId::kCommAbort:
      if (!succeeded(result))
        registry_.revive(call.comm);  // refused: the communicator still exists
      return;
    default: return;
  }
}

void Boundary::created(const abi::Call& call, ThreadState& thread, ncclResult_t result,
                       const Creation& creation) {
  const KeepErrno keep;
  if (!succeeded(result) || creation.where == nullptr) return;
  CommRecord* parent = registry_.find(call.comm);
  const std::uint32_t child_number = parent == nullptr ? 0 : parent->children.fetch_add(1);
  std::uint64_t identity = identity_of(creation.id);
  const bool all_at_once = call.function == FunctionId::kCommInitAll;
  if (all_at_once) identity = mix(reinterpret_cast<std::uintptr_t>(*creation.where), thread.thread);
  const bool in_group = open_group(call, thread).depth > 0;
  for (int i = 0; i < creation.count; ++i) {
    Birth birth;
    birth.rank = parent != nullptr ? -1 : (all_at_once ? i : call.rank);
    birth.ranks = parent != nullptr ? 0 : call.comm_ranks;
    birth.identity = identity;
    birth.lane = call.lane;
    birth.target = call.target;
    birth.parent = parent;
    birth.child_number = child_number;
    birth.nonblocking = config_field(creation.config, offsetof(ncclConfig_t, blocking), 1) == 0;
    const char* name =
        config_field<const char*>(creation.config, offsetof(ncclConfig_t, commName), nullptr);
    birth.name = name == nullptr ? "" : name;
    if (in_group) {
      if (pending_births == nullptr) pending_births = new std::vector<PendingBirth>();
      pending_births->push_back({creation.where + i, birth});
    } else if (creation.where[i] != nullptr) {
      birth.handle = creation.where[i];
      registry_.create(birth);
    }
  }
}

}  // namespace sabot::call
