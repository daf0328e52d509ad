// A small, distrustful reader of 64-bit ELF files: what a program or library asks of the loader,
// what it defines, and how NCCL is bound into it.
//
// It reads pieces with pread and checks every offset against the file's size, so a truncated,
// growing or hostile file gives an error, never a fault (a mapping would raise SIGBUS). Sections
// are a convenience: all that the loader needs is also found without them. It decides nothing about
// processes; that is left to launch, doctor and the search for the real library.
#pragma once

#include <elf.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace sabot::real {

enum class NcclLinkage : std::uint8_t {
  kNone,      // nothing of NCCL in it
  kLibrary,   // it is a libnccl
  kDynamic,   // needs libnccl.so or imports ncclX: a preload sees its calls
  kExported,  // NCCL is linked in statically and its own calls still go through the loader
  kBound,   // linked in and exported, but its own calls are bound inside (-Bsymbolic, executables)
  kHidden,  // linked in with local or hidden symbols: nothing can be preloaded over it
};
const char* to_string(NcclLinkage linkage);

class ElfFile {
 public:
  // kNotFound: no such file. kInvalidArgument: not a readable ELF file of 64 bits, with the reason.
  static Result<ElfFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t device() const { return device_; }
  std::uint64_t inode() const { return inode_; }
  std::uint16_t machine() const { return header_.e_machine; }
  bool is_native() const;  // for the machine this code was compiled for
  // Can be mapped by dlopen: a shared object that is not marked as a position-independent program.
  bool is_library() const { return header_.e_type == ET_DYN && !is_program_; }
  bool is_dynamic() const { return has_dynamic_; }

  const std::string& interpreter() const { return interpreter_; }  // "" = none
  const std::string& soname() const { return soname_; }
  const std::string& rpath() const { return rpath_; }      // DT_RPATH: before LD_LIBRARY_PATH
  const std::string& runpath() const { return runpath_; }  // DT_RUNPATH: after it
  const std::vector<std::string>& needed() const { return needed_; }
  const std::string& build_id() const { return build_id_; }  // hexadecimal

  // Defined in .dynsym and visible to others / left undefined there.
  bool exports(std::string_view name) const;
  bool imports(std::string_view name) const;

  struct Symbol {
    std::string_view name;
    bool defined;
    bool local;  // STB_LOCAL, or hidden or internal visibility
  };
  using Visit = std::function<bool(const Symbol&)>;  // false stops
  void each_dynamic_symbol(const Visit& visit) const;
  // .symtab; a stripped file has none, and visits nothing. Errors: the table lies outside the file.
  Status each_symbol(const Visit& visit) const;
  // Whether the loader has to bind a symbol with this prefix for the file's own code.
  Result<bool> relocates_against(std::string_view prefix) const;
  // Whether these bytes occur in a part that is loaded and not writable, followed by something that
  // accept (it gets up to 48 bytes) takes; without accept anything goes.
  using Accept = std::function<bool(std::string_view after)>;
  Result<bool> contains_text(std::string_view text, const Accept& accept = {}) const;

  Result<NcclLinkage> nccl_linkage() const;

 private:
  // One table of a real file: the symbols of a libtorch with debug information stay below 200 MiB.
  static constexpr std::uint64_t kTableBytesMax = 512ull << 20;

  // Closes what it holds; gives it away when moved.
  class Descriptor {
   public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    ~Descriptor();
    int get() const { return fd_; }

   private:
    int fd_;
  };

  ElfFile() = default;
  Status read(std::uint64_t offset, void* into, std::uint64_t bytes) const;
  template <typename Item>
  Result<std::vector<Item>> table(std::uint64_t offset, std::uint64_t bytes,
                                  const char* what) const;
  Error malformed(const std::string& reason) const;
  Result<std::uint64_t> offset_of(std::uint64_t address, const char* what) const;
  const Elf64_Shdr* section_of_type(std::uint32_t type) const;

  Status load_headers();
  Status load_sections();
  Status load_dynamic();
  Status load_dynamic_names(const std::vector<Elf64_Dyn>& entries);
  Status load_dynamic_symbols();
  Status load_notes();
  Result<std::uint64_t> dynamic_symbol_count() const;
  Result<std::uint64_t> count_by_gnu_hash(std::uint64_t address) const;

  Descriptor fd_;
  std::string path_;
  std::uint64_t bytes_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  bool has_dynamic_ = false;
  bool is_program_ = false;
  std::string interpreter_, soname_, rpath_, runpath_, build_id_;
  std::vector<std::string> needed_;
  std::uint64_t symbols_at_ = 0, strings_at_ = 0, strings_bytes_ = 0, hash_at_ = 0,
                gnu_hash_at_ = 0;
  std::uint64_t plt_at_ = 0, plt_bytes_ = 0, rela_at_ = 0, rela_bytes_ = 0;
  std::vector<Elf64_Sym> dynamic_symbols_;
  std::string dynamic_strings_;
};

template <typename Item>
Result<std::vector<Item>> ElfFile::table(std::uint64_t offset, std::uint64_t bytes,
                                         const char* what) const {
  if (bytes > kTableBytesMax || bytes > bytes_)
    return malformed(std::string(what) + " claims " + std::to_string(bytes) + " bytes");
  std::vector<Item> items(bytes / sizeof(Item));
  if (!items.empty()) SABOT_TRY(read(offset, items.data(), items.size() * sizeof(Item)));
  return items;
}

}  // namespace sabot::real
