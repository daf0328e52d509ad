// Whether NCCL was used past us, and the record of it.
#include "stack/bypass.hpp"

#include <link.h>

#include <cstring>
#include <string>
#include <vector>

#include "config/snapshot.hpp"
#include "real/loader.hpp"
#include "real/real_library.hpp"
#include "run/identity.hpp"
#include "run/recorder.hpp"
#include "stack/product.hpp"
#include "stack/stack.hpp"

namespace sabot::stack {
namespace {

using config::KnobId;

// No allocation, no environment: most processes end here.
bool has_gpu_libraries() {
  const auto look = [](dl_phdr_info* object, std::size_t, void* found) -> int {
    const char* name = object->dlpi_name == nullptr ? "" : object->dlpi_name;
    const bool is_one =
        std::strstr(name, "libcuda.so") != nullptr || std::strstr(name, "libcudart") != nullptr ||
        std::strstr(name, "libnccl.so") != nullptr || std::strstr(name, "libtorch_cuda") != nullptr;
    *static_cast<bool*>(found) |= is_one;
    return is_one ? 1 : 0;
  };
  bool found = false;
  ::dl_iterate_phdr(look, &found);
  return found;
}

bool has_reachable_copy(real::Loader& loader) {
  for (const real::MappedObject& object : loader.mapped())
    if (object.has_nccl && !object.is_ours) return true;
  return false;
}

// Why nothing came through, "" if there is nothing to say.
std::string reason_text(const Stack* stack) {
  real::Loader& loader = real::process_loader();
  const real::RealLibrary* library =
      stack != nullptr && stack->real() != nullptr ? &stack->real()->library() : nullptr;
  std::string text;
  for (const real::Bypass& bypass : real::bypassed(loader, library)) {
    // Linked and never called is no bypass: the program simply did not communicate.
    if (bypass.by_handle) text += (text.empty() ? "" : "; ") + bypass.text;
  }
  // Where a reachable copy is mapped, NCCL is not hidden elsewhere; the search would read every
  // mapped file, gigabytes under PyTorch.
  if (!text.empty() || stack != nullptr || has_reachable_copy(loader)) return text;
  for (const real::Bypass& hidden : real::hidden_in_process(loader))
    text += (text.empty() ? "" : "; ") + hidden.text;
  return text;
}

}  // namespace

void report_bypass() noexcept {
  try {
    Stack* stack = Stack::current();
    if (stack == nullptr && !has_gpu_libraries()) return;
    const config::Snapshot& settings = config::process();
    if (!settings.is_set(KnobId::kRunFolder) || settings.get<KnobId::kDisable>()) return;
    if (stack != nullptr && (stack->is_forked_child() || stack->saw_application())) return;
    const std::string reason = reason_text(stack);
    if (reason.empty()) return;
    run::AttachRecord record;
    record.attached = false;
    record.way = product().way;
    record.reason = reason;
    record.rank = settings.world_rank().value_or(-1);
    record.attempt = settings.attempt();
    record.launcher = settings.get<KnobId::kLauncher>();
    const std::string folder(settings.get<KnobId::kRunFolder>());
    run::write_attach_record(folder, run::process_tag(), record).ignore();
  } catch (...) {
    return;  // the process is ending: there is nobody left to tell
  }
}

}  // namespace sabot::stack
