// Walks the dynamic section and hash tables in memory. glibc relocates the addresses in the dynamic
// section in place on most machines; where it does not (a read-only section, the vdso) they are
// below the base.
#include "real/mapped_elf.hpp"

#include <cstring>

#include "real/elf_notes.hpp"

namespace sabot::real {
namespace {

constexpr std::uint32_t kChainMax = 1u << 24;  // more symbols than any object has

std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

std::uint32_t sysv_hash_of(const char* name) {
  std::uint32_t hash = 0;
  for (; *name != 0; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

}  // namespace

MappedElf::MappedElf(std::uintptr_t base, const ElfW(Phdr) * segments, std::size_t count)
    : base_(base), segments_(segments), segment_count_(count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& segment = segments[i];
    if (segment.p_type == PT_LOAD) {
      begin_ = std::min<std::uintptr_t>(begin_, base + segment.p_vaddr);
      end_ = std::max<std::uintptr_t>(end_, base + segment.p_vaddr + segment.p_memsz);
    }
    if (segment.p_type == PT_DYNAMIC) {
      dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(base + segment.p_vaddr);
      dynamic_count_ = segment.p_memsz / sizeof(ElfW(Dyn));
    }
  }
  if (dynamic_ == nullptr || at(reinterpret_cast<std::uintptr_t>(dynamic_), 1) == nullptr)
    dynamic_count_ = 0;
  for (std::size_t i = 0; i < dynamic_count_ && dynamic_[i].d_tag != DT_NULL; ++i) {
    const std::uintptr_t value = dynamic_[i].d_un.d_ptr;
    switch (dynamic_[i].d_tag) {
      case DT_SYMTAB: symbols_ = relocated(value); break;
      case DT_STRTAB: strings_ = relocated(value); break;
      case DT_STRSZ: strings_bytes_ = value; break;
      case DT_GNU_HASH: gnu_hash_ = relocated(value); break;
      case DT_HASH: sysv_hash_ = relocated(value); break;
      default: break;
    }
  }
  if (at(strings_, strings_bytes_) == nullptr) strings_bytes_ = 0;
}

const void* MappedElf::at(std::uintptr_t address, std::size_t bytes) const {
  if (address < begin_ || address > end_ || bytes > end_ - address) return nullptr;
  return reinterpret_cast<const void*>(address);
}

std::string MappedElf::text(std::uintptr_t offset) const {
  if (offset >= strings_bytes_) return {};
  const char* begin = reinterpret_cast<const char*>(strings_) + offset;
  return std::string(begin, ::strnlen(begin, strings_bytes_ - offset));
}

std::string MappedElf::text_of(std::int64_t tag) const {
  for (std::size_t i = 0; i < dynamic_count_ && dynamic_[i].d_tag != DT_NULL; ++i)
    if (dynamic_[i].d_tag == tag) return text(dynamic_[i].d_un.d_val);
  return {};
}

std::string MappedElf::soname() const { return text_of(DT_SONAME); }

std::string MappedElf::run_path() const {
  const std::string newer = text_of(DT_RUNPATH);
  return newer.empty() ? text_of(DT_RPATH) : newer;
}

std::vector<std::string> MappedElf::needed() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < dynamic_count_ && dynamic_[i].d_tag != DT_NULL; ++i)
    if (dynamic_[i].d_tag == DT_NEEDED) names.push_back(text(dynamic_[i].d_un.d_val));
  return names;
}

std::string MappedElf::build_id() const {
  for (std::size_t i = 0; i < segment_count_; ++i) {
    const ElfW(Phdr)& segment = segments_[i];
    if (segment.p_type != PT_NOTE) continue;
    const void* notes = at(base_ + segment.p_vaddr, segment.p_memsz);
    if (notes == nullptr) continue;
    std::string id = build_id_in_notes(static_cast<const char*>(notes), segment.p_memsz);
    if (!id.empty()) return id;
  }
  return {};
}

void* MappedElf::symbol(const char* name) const {
  if (symbols_ == 0 || strings_bytes_ == 0) return nullptr;
  const ElfW(Sym)* found = gnu_hash_ != 0 ? by_gnu_hash(name) : by_sysv_hash(name);
  if (found == nullptr) return nullptr;
  const unsigned type = ELF64_ST_TYPE(found->st_info);
  if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) return nullptr;
  return reinterpret_cast<void*>(base_ + found->st_value);
}

const ElfW(Sym) * MappedElf::matching(std::uint32_t index, const char* name) const {
  const std::uintptr_t address = symbols_ + std::uintptr_t{index} * sizeof(ElfW(Sym));
  const auto* symbol = static_cast<const ElfW(Sym)*>(at(address, sizeof(ElfW(Sym))));
  if (symbol == nullptr || symbol->st_name >= strings_bytes_) return nullptr;
  const bool visible = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
                       ELF64_ST_VISIBILITY(symbol->st_other) != STV_HIDDEN;
  if (symbol->st_shndx == SHN_UNDEF || !visible) return nullptr;
  const char* text = reinterpret_cast<const char*>(strings_) + symbol->st_name;
  const std::size_t left = strings_bytes_ - symbol->st_name;
  return ::strnlen(text, left) < left && std::strcmp(text, name) == 0 ? symbol : nullptr;
}

const ElfW(Sym) * MappedElf::by_gnu_hash(const char* name) const {
  const auto* head = static_cast<const std::uint32_t*>(at(gnu_hash_, 16));
  if (head == nullptr || head[0] == 0) return nullptr;
  const std::uint32_t bucket_count = head[0];
  const std::uint32_t first_symbol = head[1];
  const std::uintptr_t buckets_at = gnu_hash_ + 16 + std::uintptr_t{head[2]} * sizeof(ElfW(Addr));
  const auto* buckets =
      static_cast<const std::uint32_t*>(at(buckets_at, std::size_t{bucket_count} * 4));
  if (buckets == nullptr) return nullptr;
  const std::uint32_t hash = gnu_hash_of(name);
  const std::uintptr_t chains_at = buckets_at + std::uintptr_t{bucket_count} * 4;
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (std::uint32_t steps = 0; steps < kChainMax; ++steps, ++index) {
    const auto* chain = static_cast<const std::uint32_t*>(
        at(chains_at + std::uintptr_t{index - first_symbol} * 4, 4));
    if (chain == nullptr) return nullptr;
    if ((*chain | 1) == (hash | 1))
      if (const ElfW(Sym)* found = matching(index, name)) return found;
    if ((*chain & 1) != 0) return nullptr;
  }
  return nullptr;
}

const ElfW(Sym) * MappedElf::by_sysv_hash(const char* name) const {
  const auto* head = static_cast<const std::uint32_t*>(at(sysv_hash_, 8));
  if (sysv_hash_ == 0 || head == nullptr || head[0] == 0) return nullptr;
  const std::uint32_t bucket_count = head[0];
  const std::uint32_t chain_count = head[1];
  const std::size_t table_bytes = (std::size_t{bucket_count} + chain_count) * 4;
  const auto* buckets = static_cast<const std::uint32_t*>(at(sysv_hash_ + 8, table_bytes));
  if (buckets == nullptr) return nullptr;
  const std::uint32_t* chains = buckets + bucket_count;
  std::uint32_t index = buckets[sysv_hash_of(name) % bucket_count];
  for (std::uint32_t steps = 0; index != 0 && index < chain_count && steps < kChainMax; ++steps) {
    if (const ElfW(Sym)* found = matching(index, name)) return found;
    index = chains[index];
  }
  return nullptr;
}

}  // namespace sabot::real
