// Opening the subject, and keeping the reasons for which tests were skipped.
#include "subject.hpp"

#include <dlfcn.h>

#include <mutex>
#include <set>

namespace sabot::conformance {
namespace {

std::unique_ptr<Subject> the_subject;

std::mutex reasons_mutex;
std::set<std::string> reasons;

std::string note(std::string reason) {
  if (!reason.empty()) {
    const std::lock_guard lock(reasons_mutex);
    reasons.insert(reason);
  }
  return reason;
}

void* lookup(const Subject& subject, abi::FunctionId function) {
  return subject.symbol(abi::info(function).public_name);
}

std::string version(int code) { return abi::version_text(code).text; }

}  // namespace

void* Subject::symbol(const char* name) const {
  return dlsym(options.global ? RTLD_DEFAULT : handle, name);
}

int Subject::ranks_max() const { return memory == nullptr ? 0 : memory->device_count(); }

Result<std::unique_ptr<Subject>> open_subject(const Options& options) {
  auto opened = std::make_unique<Subject>();
  opened->options = options;
  opened->handle =
      dlopen(options.library.c_str(), RTLD_NOW | (options.global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (opened->handle == nullptr)
    return Error(Code::kNotFound, "opening the library under test: " + std::string(dlerror()));
#define SABOT_LOOK_UP(name, type) \
  opened->api.name =              \
      reinterpret_cast<decltype(opened->api.name)>(lookup(*opened, abi::FunctionId::k##name));
  SABOT_API(SABOT_LOOK_UP)
#undef SABOT_LOOK_UP
  if (opened->api.GetVersion == nullptr || opened->api.GetVersion(&opened->version) != ncclSuccess)
    return Error(Code::kNotFound, options.library + " has no working ncclGetVersion");
  if (options.where == Where::kHost) opened->memory = make_host_memory(opened->handle);
  if (options.where == Where::kCuda) opened->memory = SABOT_TRY(make_cuda_memory());
  return opened;
}

Subject& subject() { return *the_subject; }
void set_subject(std::unique_ptr<Subject> subject) { the_subject = std::move(subject); }

std::string reason_without(abi::FunctionId function) {
  const abi::FunctionInfo& wanted = abi::info(function);
  // By version, not by symbol: a preloaded library may export what the real one lacks.
  if (subject().version < wanted.since_code)
    return note(std::string(wanted.public_name) + " came with " + std::string(wanted.since) +
                ", this library is " + version(subject().version));
  if (lookup(subject(), function) == nullptr)
    [&] { FAIL() << wanted.public_name << " is missing in " << subject().options.library; }();
  return "";
}

std::string reason_without_ranks(int ranks) {
  if (subject().ranks_max() >= ranks) return "";
  return note("needs " + std::to_string(ranks) + " devices, here are " +
              std::to_string(subject().ranks_max()));
}

std::string reason_without_type(ncclDataType_t type) {
  constexpr int kFloat8Since = NCCL_VERSION(2, 24, 3);
  if (type < ncclFloat8e4m3 || subject().version >= kFloat8Since) return "";
  return note("the float8 types came with " + version(kFloat8Since) + ", this library is " +
              version(subject().version));
}

bool is_permitted(const std::string& reason) {
  const std::lock_guard lock(reasons_mutex);
  return reasons.count(reason) > 0;
}

std::vector<std::string> permitted_reasons() {
  const std::lock_guard lock(reasons_mutex);
  return {reasons.begin(), reasons.end()};
}

std::string text_of(ncclResult_t result) {
  const std::string_view name = abi::result_name(result);
  return name.empty() ? "result " + std::to_string(result) : std::string(name);
}

}  // namespace sabot::conformance
