// Looking the functions up by name, so that an older or newer library is noticed here and not in
// the middle of training.
#include "pytorch/library.hpp"

#include <dlfcn.h>

#include <mutex>

namespace sabot::pytorch {
namespace {

using StackInfo = const sabot_stack_info_t* (*)();

std::mutex mutex;
Library found;
bool is_open = false;

template <typename Function>
bool find(const sabot_stack_info_t& info, const std::string& name, Function& into,
          std::string& problem) {
  into = reinterpret_cast<Function>(info.host_function(name.c_str()));
  if (into == nullptr && problem.empty()) {
    problem = std::string("Sabot ") + info.version + " (" + info.library + ") lacks " + name +
              ": it is older than the Python package; install both from one version";
  }
  return into != nullptr;
}

std::string fill(const sabot_stack_info_t& info) {
  std::string problem;
#define SABOT_FIND(name) find(info, "nccl" #name, found.name, problem);
  SABOT_LAYERED(SABOT_FIND)
#undef SABOT_FIND
#define SABOT_FIND(name) find(info, "pnccl" #name, found.beneath.name, problem);
  SABOT_BENEATH(SABOT_FIND)
#undef SABOT_FIND
#define SABOT_FIND(name) find(info, "sabot_" #name, found.name, problem);
  SABOT_OWN(SABOT_FIND)
#undef SABOT_FIND
  found.version = info.version;
  found.way = info.library;
  return problem;
}

}  // namespace

std::string open_library(const char* standin_path) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (is_open) return {};
  auto stack = reinterpret_cast<StackInfo>(::dlsym(RTLD_DEFAULT, "sabot_stack_v1"));
  if (stack == nullptr) {
    void* handle = ::dlopen(standin_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      return std::string("cannot open Sabot's stand-in for NCCL: ") +
             (why != nullptr ? why : standin_path) +
             "; build it with `make`, or install the package that contains it";
    }
    stack = reinterpret_cast<StackInfo>(::dlsym(handle, "sabot_stack_v1"));
  }
  if (stack == nullptr) {
    return std::string(standin_path) + " is not a library of Sabot: it lacks sabot_stack_v1";
  }
  const sabot_stack_info_t* info = stack();
  if (info->size < sizeof(sabot_stack_info_t)) {
    return std::string("the library of Sabot in this process is version ") + info->version +
           ", which has no functions for torch; preload the one that came with this package";
  }
  std::string problem = fill(*info);
  is_open = problem.empty();
  return problem;
}

const Library& library() { return found; }

}  // namespace sabot::pytorch
