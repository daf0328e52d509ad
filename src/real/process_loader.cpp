// The real form of the loader seam: dl_iterate_phdr, dlopen, dlsym and files of this process.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "real/elf_file.hpp"
#include "real/ld_cache.hpp"
#include "real/loader.hpp"
#include "real/mapped_elf.hpp"

namespace sabot::real {
namespace {

constexpr std::size_t kCacheBytesMax = 16 << 20;
constexpr char kOurMark[] = "sabot_stack_v1";

std::string program_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t bytes = ::readlink("/proc/self/exe", path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
}

std::string whole_file(const char* path) {
  std::string bytes;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return bytes;
  std::array<char, 65536> piece;
  ssize_t got = 0;
  while (bytes.size() < kCacheBytesMax && (got = ::read(fd, piece.data(), piece.size())) > 0)
    bytes.append(piece.data(), static_cast<std::size_t>(got));
  ::close(fd);
  return bytes;
}

MappedObject describe(const dl_phdr_info& info, bool is_program) {
  const MappedElf elf(info.dlpi_addr, info.dlpi_phdr, info.dlpi_phnum);
  MappedObject object;
  object.path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  if (object.path.empty() && is_program) object.path = program_path();
  object.soname = elf.soname();
  object.needed = elf.needed();
  object.run_path = elf.run_path();
  object.begin = elf.begin();
  object.end = elf.end();
  object.build_id = elf.build_id();
  object.is_ours = elf.symbol(kOurMark) != nullptr;
  object.has_nccl = elf.symbol("ncclCommInitRank") != nullptr;
  object.has_pnccl = elf.symbol("pncclCommInitRank") != nullptr;
  return object;
}

class ProcessLoader final : public Loader {
 public:
  std::vector<MappedObject> mapped() override {
    std::vector<MappedObject> objects;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* into) {
          auto* list = static_cast<std::vector<MappedObject>*>(into);
          list->push_back(describe(*info, list->empty()));
          return 0;
        },
        &objects);
    return objects;
  }

  std::uint64_t changes() noexcept override {
    std::uint64_t count = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* into) {
          *static_cast<std::uint64_t*>(into) = info->dlpi_adds + info->dlpi_subs;
          return 1;  // the counters are the same in every entry
        },
        &count);
    return count;
  }

  Result<FileFacts> inspect(const std::string& path) override {
    const ElfFile file = SABOT_TRY(ElfFile::open(path));
    if (!file.is_native())
      return Error(Code::kInvalidArgument, path + ": it is made for another kind of machine");
    if (!file.is_library())
      return Error(Code::kInvalidArgument, path + ": it is not a shared library");
    FileFacts facts;
    facts.id = {file.device(), file.inode()};
    facts.is_ours = file.exports(kOurMark);
    facts.has_nccl = file.exports("ncclGetVersion") || file.exports("pncclGetVersion");
    return facts;
  }

  Result<Opened> open(const std::string& name, Open how) override {
    const int only = how == Open::kLoad ? 0 : RTLD_NOLOAD;
    const int scope = how == Open::kShow ? RTLD_GLOBAL : RTLD_LOCAL;
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NODELETE | only | scope);
    if (handle == nullptr) {
      const char* text = ::dlerror();
      return Error(Code::kNotFound, text != nullptr ? text : name + ": it is not mapped");
    }
    link_map* map = nullptr;
    if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr)
      return Error(Code::kInternal, name + ": the loader does not say where it is");
    return Opened{handle, map->l_name};
  }

  void* symbol_in(const MappedObject& object, const char* name) override {
    struct Search {
      const MappedObject* object;
      const char* name;
      void* found;
    } search{&object, name, nullptr};
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* into) {
          auto* wanted = static_cast<Search*>(into);
          const MappedElf elf(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
          if (elf.begin() != wanted->object->begin) return 0;
          wanted->found = elf.symbol(wanted->name);
          return 1;
        },
        &search);
    return search.found;
  }

  void* next_symbol(const char* name) override {
    void* found = ::dlsym(RTLD_NEXT, name);
    if (found == nullptr) ::dlerror();  // our miss is not to be found by the application
    return found;
  }

  std::vector<std::string> cached_paths(const std::string& name) override {
    return paths_in_ld_cache(whole_file("/etc/ld.so.cache"), name);
  }

  Result<NcclLinkage> linkage(const std::string& path) override {
    const ElfFile file = SABOT_TRY(ElfFile::open(path));
    return file.nccl_linkage();
  }

  const void* ourselves() override { return reinterpret_cast<const void*>(&describe); }
};

}  // namespace

Loader& process_loader() {
  // Never destroyed: calls may come from threads that outlive static destruction.
  static auto* loader = new ProcessLoader;
  return *loader;
}

}  // namespace sabot::real
