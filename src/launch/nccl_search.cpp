// The rules of the prediction; every question to the machine goes through the seam.
#include "launch/nccl_search.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "launch/command.hpp"

namespace sabot::launch {
namespace {

// Words of a command line that are looked at: a launcher's own options come first, files later.
constexpr std::size_t kWordsMax = 64;
constexpr std::array<const char*, 2> kNames{"libnccl.so.2", "libnccl.so"};
// Beside a Python package folder: the wheels of NVIDIA, old and new layout, and torch's own copy.
constexpr std::array<const char*, 3> kPackageFolders{"nvidia/nccl/lib", "nvidia/cu13/lib",
                                                     "torch/lib"};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

class Search {
 public:
  Search(Machine& machine, const NcclRequest& request) : machine_(machine), request_(request) {}

  Result<NcclFinding> run() {
    if (!request_.real_nccl.empty()) {
      if (!machine_.is_file(request_.real_nccl))
        return Error(Code::kInvalidArgument, "SABOT_REAL_NCCL names '" + request_.real_nccl +
                                                 "', and there is no such file");
      return found(request_.real_nccl, "named by SABOT_REAL_NCCL");
    }
    if (by_programs() || by_folder(request_.conda_prefix, "CONDA_PREFIX") ||
        by_folder(request_.nccl_root, "NCCL_ROOT") || by_library_path() || by_cache())
      return std::move(finding_);
    return std::move(finding_);
  }

 private:
  NcclFinding found(const std::string& path, const std::string& how) {
    finding_.path = path;
    finding_.how = how;
    return std::move(finding_);
  }
  bool take(const std::string& folder, const std::string& how) {
    for (const char* const name : kNames) {
      const std::string path = folder + "/" + name;
      if (!machine_.is_file(path)) continue;
      finding_.path = path;
      finding_.how = how;
      return true;
    }
    return false;
  }
  void miss(const std::string& place) { finding_.searched.push_back(place); }

  // The command itself, then every further word that is a program: launchers and shells name
  // theirs.
  bool by_programs() {
    bool python_seen = false;
    for (std::size_t i = 0; i < request_.words.size() && i < kWordsMax; ++i) {
      const std::string program = machine_.program_of(request_.words[i]);
      if (program.empty()) continue;
      if (by_links(program)) return true;
      const std::string interpreter =
          is_python(program) ? program : machine_.interpreter_of(program);
      if (!is_python(interpreter)) continue;
      python_seen = true;
      if (by_python(interpreter)) return true;
    }
    if (python_seen) return false;
    // A shell line or a launcher's file may start Python without naming it as a word.
    const std::string python = machine_.program_of("python3");
    return !python.empty() && by_python(python);
  }

  bool by_links(const std::string& program) {
    const Machine::Links links = machine_.links_of(program);
    const bool wants =
        std::any_of(links.needed.begin(), links.needed.end(),
                    [](const std::string& n) { return n.starts_with("libnccl.so"); });
    if (!wants) return false;
    const std::string how = "linked by '" + program + "'";
    // The loader's order: RPATH unless there is a RUNPATH, LD_LIBRARY_PATH, RUNPATH, cache.
    const bool old_form = links.runpath.empty();
    if (old_form && by_run_path(links.rpath, program, how)) return true;
    for (const std::string_view folder : split(request_.library_path, ':'))
      if (!folder.empty() && take(std::string(folder), how)) return true;
    if (!old_form && by_run_path(links.runpath, program, how)) return true;
    for (const char* const name : kNames)
      for (const std::string& path : machine_.cached_libraries(name))
        if (machine_.is_file(path)) {
          finding_.path = path;
          finding_.how = how;
          return true;
        }
    miss("what '" + program + "' is linked to: its libnccl.so is nowhere");
    return false;
  }

  bool by_run_path(const std::string& run_path, const std::string& program,
                   const std::string& how) {
    for (const std::string_view entry : split(run_path, ':')) {
      if (entry.empty()) continue;
      std::string folder(entry);
      for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"})
        if (const std::size_t at = folder.find(origin); at != folder.npos)
          folder.replace(at, origin.size(), folder_of(program));
      if (take(folder, how)) return true;
    }
    return false;
  }

  bool by_python(const std::string& interpreter) {
    for (const std::string& packages : machine_.python_path(interpreter)) {
      if (packages.empty()) continue;
      for (const char* const folder : kPackageFolders)
        if (take(packages + "/" + folder, "in the Python packages of '" + interpreter + "'"))
          return true;
      const std::string torch = packages + "/torch/lib/libtorch_cuda.so";
      if (finding_.unreachable.empty() && machine_.is_file(torch))
        finding_.unreachable = machine_.unreachable_text(torch);
    }
    miss("the Python packages of '" + interpreter + "'");
    return false;
  }

  bool by_folder(const std::string& prefix, const char* variable) {
    if (prefix.empty()) return false;
    if (take(prefix + "/lib", std::string("in ") + variable)) return true;
    miss(prefix + "/lib (" + variable + ")");
    return false;
  }

  bool by_library_path() {
    for (const std::string_view folder : split(request_.library_path, ':')) {
      if (folder.empty()) continue;
      if (take(std::string(folder), "in LD_LIBRARY_PATH")) return true;
      miss(std::string(folder) + " (LD_LIBRARY_PATH)");
    }
    return false;
  }

  bool by_cache() {
    for (const char* const name : kNames)
      for (const std::string& path : machine_.cached_libraries(name))
        if (machine_.is_file(path)) {
          finding_.path = path;
          finding_.how = "in the loader's cache";
          return true;
        }
    miss("the loader's cache");
    return false;
  }

  Machine& machine_;
  const NcclRequest& request_;
  NcclFinding finding_;
};

}  // namespace

Result<NcclFinding> search_nccl(Machine& machine, const NcclRequest& request) {
  return Search(machine, request).run();
}

std::string searched_text(const NcclFinding& finding) {
  std::vector<std::string_view> places(finding.searched.begin(), finding.searched.end());
  return "searched: " + join(places, ", ");
}

}  // namespace sabot::launch
