// The seam to the dynamic loader and to the files it loads: everything src/real asks of the
// outside.
//
// The real form (process_loader) reads the link map with dl_iterate_phdr and looks symbols up in
// exactly one object, because dlsym also answers from an object's dependencies. The fake form keeps
// a table of files and a list of mapped objects. The loader lock is held only while objects are
// read, never across a call into foreign code. What is done with the answers is decided in
// candidates, scope and real_library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "real/elf_file.hpp"

namespace sabot::real {

struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// One object of the link map, copied while the loader's lock was held.
struct MappedObject {
  std::string path;    // absolute where the loader knows it; the executable's for the program
  std::string soname;  // "" = none
  std::vector<std::string> needed;  // DT_NEEDED in order
  std::string run_path;             // DT_RUNPATH, else DT_RPATH, as written
  std::uintptr_t begin = 0;  // [begin, end) covers all its segments and nothing else: the loader
  std::uintptr_t end = 0;    // reserves one range per object
  std::string build_id;      // hexadecimal, "" = none
  bool is_ours = false;      // exports sabot_stack_v1
  bool has_nccl = false;     // defines ncclCommInitRank
  bool has_pnccl = false;    // defines pncclCommInitRank

  bool covers(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};

// What a file says about itself before anybody maps it.
struct FileFacts {
  FileId id;
  bool is_ours = false;   // exports sabot_stack_v1
  bool has_nccl = false;  // exports ncclGetVersion or pncclGetVersion
};

struct Opened {
  void* handle = nullptr;
  std::string path;  // as the loader knows it
};

class Loader {
 public:
  // kShow: as kOnlyIfMapped, and adds it to the end of the global scope (RTLD_GLOBAL).
  enum class Open : std::uint8_t { kOnlyIfMapped, kLoad, kShow };

  virtual ~Loader() = default;

  // All mapped objects in load order; the program is the first.
  virtual std::vector<MappedObject> mapped() = 0;
  // Grows with every object that is mapped or unmapped. Lock-free where the C library allows it.
  virtual std::uint64_t changes() noexcept = 0;
  // kNotFound: no such file. kInvalidArgument: not a shared library of this machine.
  virtual Result<FileFacts> inspect(const std::string& path) = 0;
  // Maps (or only pins) an object for the rest of the process, RTLD_LOCAL. kNotFound with the
  // loader's text.
  virtual Result<Opened> open(const std::string& name, Open how) = 0;
  // What the loader's cache names under this name, best first; all paths exist or existed.
  virtual std::vector<std::string> cached_paths(const std::string& name) = 0;
  // How NCCL is bound into a file; reads all of it in the worst case.
  virtual Result<NcclLinkage> linkage(const std::string& path) = 0;
  // The address of a dynamic symbol defined by this very object, or null.
  virtual void* symbol_in(const MappedObject& object, const char* name) = 0;
  // What RTLD_NEXT answers to Sabot, or null.
  virtual void* next_symbol(const char* name) = 0;
  // Some address inside the object that contains this code.
  virtual const void* ourselves() = 0;
};

// The one of this process; never destroyed.
Loader& process_loader();

}  // namespace sabot::real
