// Reads one mapped object from its own memory: names, needs, build id, and symbols of exactly this
// object.
//
// dlsym on a handle answers for an object and its dependencies; here the question is what the
// object itself defines, so its hash tables are read directly. Addresses that leave the object's
// range end the search. The caller keeps the object mapped: inside dl_iterate_phdr, or by holding a
// handle.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sabot::real {

class MappedElf {
 public:
  MappedElf(std::uintptr_t base, const ElfW(Phdr) * segments, std::size_t count);

  std::uintptr_t begin() const { return begin_; }
  std::uintptr_t end() const { return end_; }
  std::string soname() const;
  std::vector<std::string> needed() const;
  // DT_RUNPATH, else DT_RPATH, as written.
  std::string run_path() const;
  std::string build_id() const;
  // The address of a defined, visible symbol (function or data), or null.
  void* symbol(const char* name) const;

 private:
  const void* at(std::uintptr_t address, std::size_t bytes) const;
  std::uintptr_t relocated(std::uintptr_t value) const {
    return value < base_ ? base_ + value : value;
  }
  std::string text(std::uintptr_t offset) const;
  std::string text_of(std::int64_t tag) const;
  const ElfW(Sym) * matching(std::uint32_t index, const char* name) const;
  const ElfW(Sym) * by_gnu_hash(const char* name) const;
  const ElfW(Sym) * by_sysv_hash(const char* name) const;

  std::uintptr_t base_;
  const ElfW(Phdr) * segments_;
  std::size_t segment_count_;
  std::uintptr_t begin_ = UINTPTR_MAX;
  std::uintptr_t end_ = 0;
  const ElfW(Dyn) * dynamic_ = nullptr;
  std::size_t dynamic_count_ = 0;
  std::uintptr_t symbols_ = 0, strings_ = 0, gnu_hash_ = 0, sysv_hash_ = 0;
  std::size_t strings_bytes_ = 0;
};

}  // namespace sabot::real
