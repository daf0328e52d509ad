// Function tables per copy, the slots that call them, and the answer of a function that is missing.
#include "stack/real_engine.hpp"

#include <bitset>

#include "abi/names.hpp"
#include "base/log.hpp"
#include "call/last_error.hpp"
#include "call/thread_state.hpp"

namespace sabot::stack {
namespace {

std::atomic<const real::Copy*> missing_in{nullptr};  // the copy that messages speak of
std::array<std::atomic<bool>, abi::kFunctionCount> reported{};

const char* report_missing(abi::FunctionId function) {
  const call::KeepErrno keep;
  const abi::FunctionInfo& row = abi::info(function);
  const real::Copy* copy = missing_in.load();
  const std::string text = copy != nullptr ? copy->missing_text(row.name, row.since_code)
                                           : std::string(row.public_name) + " is missing";
  if (!reported[static_cast<std::size_t>(function)].exchange(true)) log::line(text);
  call::set_last_error(text);
  return row.public_name;
}

#define SABOT_MISSING(name, ret)                                 \
  ret missing_##name(SABOT_PARAMS_##name) {                      \
    SABOT_UNUSED_##name;                                         \
    const char* text = report_missing(abi::FunctionId::k##name); \
    return abi::refusal<ret>(ncclInvalidUsage, text);            \
  }
SABOT_API(SABOT_MISSING)
#undef SABOT_MISSING

constexpr abi::FunctionTable kMissing = {{
#define SABOT_SLOT(name, ret) &missing_##name,
    SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
}};

#define SABOT_REAL(name, ret)                                                               \
  ret real_##name(void*, abi::Call* call SABOT_TAIL_PARAMS_##name) {                        \
    return static_cast<const CopyTables*>(call->target)->next.call.name(SABOT_ARGS_##name); \
  }
SABOT_API(SABOT_REAL)
#undef SABOT_REAL

constexpr abi::ApiTable kReal = {
#define SABOT_SLOT(name, ret) &real_##name,
    SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT
};

}  // namespace

RealEngine::RealEngine(std::unique_ptr<real::RealLibrary> library) : library_(std::move(library)) {
  missing_in.store(&library_->chosen());
  chosen_ = add(library_->chosen());
  for (const real::Copy* copy : library_->copies()) add(*copy);
}

abi::Api RealEngine::api() { return {&kReal, this}; }

const CopyTables* RealEngine::tables_of(const real::Copy* copy) const noexcept {
  const std::size_t count = count_.load(std::memory_order_acquire);  // pairs with: add
  for (std::size_t i = 0; i < count; ++i)
    if (tables_[i]->copy == copy) return tables_[i].get();
  return chosen_;
}

const CopyTables* RealEngine::add(const real::Copy& copy) {
  const std::size_t count = count_.load();
  for (std::size_t i = 0; i < count; ++i)
    if (tables_[i]->copy == &copy) return tables_[i].get();
  if (count == kCopiesMax) return chosen_;
  auto tables = std::make_unique<CopyTables>();
  tables->copy = &copy;
  for (const abi::FunctionInfo& row : abi::all_functions()) {
    const auto i = static_cast<std::size_t>(row.id);
    void* own = copy.symbol(row.name);
    void* next = library_->next(row.name, copy);
    tables->own.by_id[i] = own != nullptr ? own : kMissing.by_id[i];
    tables->next.by_id[i] = next != nullptr ? next : kMissing.by_id[i];
    tables->has_wrapper |= next != nullptr && next != own;
  }
  tables_[count] = std::move(tables);
  count_.store(count + 1, std::memory_order_release);  // pairs with: tables_of
  return tables_[count].get();
}

bool RealEngine::is_direct() const { return count_.load() == 1 && !chosen_->has_wrapper; }

Destination RealEngine::destination(const void* return_address) const noexcept {
  if (count_.load(std::memory_order_relaxed) == 1 && !chosen_->has_wrapper)
    return {chosen_, is_inside_dedicated_copy(return_address)};
  const real::Route route = library_->route_for(return_address);
  return {tables_of(route.copy), route.caller != real::Caller::kApplication};
}

bool RealEngine::look_again() {
  if (!library_->maps_changed()) return false;
  const std::lock_guard lock(mutex_);
  const std::optional<std::string> news = library_->refresh();
  if (!news) return false;
  log::line(*news);
  for (const real::Copy* copy : library_->copies()) add(*copy);
  return true;
}

}  // namespace sabot::stack
