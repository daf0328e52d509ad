// One copy of NCCL, and the words in which copies, places and failed searches are told.
#include <cstdio>

#include "real/real_library.hpp"
#include "real/scope.hpp"

namespace sabot::real {
namespace {

using GetVersion = int (*)(int*);

int ask_version(void* function) {
  int version = 0;
  if (function == nullptr || reinterpret_cast<GetVersion>(function)(&version) != 0) return 0;
  return version;
}

}  // namespace

const char* to_string(Place place) {
  switch (place) {
    case Place::kNamed: return "SABOT_REAL_NCCL";
    case Place::kMapped: return "already mapped";
    case Place::kNearTorch: return "next to libtorch_cuda.so";
    case Place::kRunPath: return "the run path of what is linked to it";
    case Place::kNext: return "next in the loader's order";
    case Place::kConda: return "CONDA_PREFIX";
    case Place::kNcclRoot: return "NCCL_ROOT";
    case Place::kLoaderName: return "the loader's search";
    case Place::kLibraryPath: return "LD_LIBRARY_PATH";
    case Place::kLoaderCache: return "the loader's cache";
  }
  return "?";
}

// NCCL wrote major*1000 until 2.8 and major*10000 from 2.9 on.
std::string format_version(int code) {
  if (code <= 0) return "of unknown version";
  const int major = code >= 10000 ? code / 10000 : code / 1000;
  const int rest = code >= 10000 ? code % 10000 : code % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

Copy::Copy(Loader& loader, MappedObject object, Place place, void* handle)
    : loader_(&loader),
      object_(std::move(object)),
      place_(place),
      dedicated_(is_named_nccl(object_)),
      handle_(handle) {
  version_ = ask_version(symbol("GetVersion"));
}

void* Copy::symbol(std::string_view function) const {
  const std::string name = "pnccl" + std::string(function);
  if (void* strong = loader_->symbol_in(object_, name.c_str())) return strong;
  return loader_->symbol_in(object_, name.c_str() + 1);
}

std::string Copy::missing_text(std::string_view function, int since) const {
  const std::string name = "nccl" + std::string(function);
  const std::string in_use = format_version(version_) + " (" + path() + ")";
  if (since > version_ && version_ > 0)
    return name + " needs NCCL " + format_version(since) + " or newer; the library in use is " +
           in_use;
  return name + " is missing from the library in use, NCCL " + in_use +
         (since > 0 ? ", although NCCL has it since " + format_version(since) : "");
}

std::string Copy::text() const {
  std::string text = path() + " (NCCL " + format_version(version_);
  if (!build_id().empty()) text += ", build id " + build_id();
  return text + ")";
}

std::string searched_text(const std::vector<Rejection>& rejected) {
  std::string text;
  for (const Rejection& one : rejected) {
    text += text.empty() ? "  " : "\n  ";
    text += to_string(one.place);
    text += ": ";
    if (!one.path.empty() && one.reason.compare(0, one.path.size(), one.path) != 0)
      text += one.path + ": ";
    text += one.reason;
  }
  return text;
}

}  // namespace sabot::real
