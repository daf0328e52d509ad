// Reads headers, the dynamic section and symbol tables; every length is checked before it is used.
#include "real/elf_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "real/elf_notes.hpp"

namespace sabot::real {
namespace {

constexpr std::uint64_t kNameBytesMax = 4096;
constexpr std::uint64_t kHashPieceBytes = 64 << 10;

#if defined(__x86_64__)
constexpr std::uint16_t kNativeMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kNativeMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kNativeMachine = EM_RISCV;
#else
#error "name the ELF machine of this architecture"
#endif

// The text at an offset of a string table; empty where the table does not hold a terminated text
// there.
std::string_view text_at(const std::string& strings, std::uint64_t offset) {
  if (offset >= strings.size()) return {};
  const char* begin = strings.data() + offset;
  const void* end = std::memchr(begin, 0, strings.size() - offset);
  if (end == nullptr) return {};
  return {begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
}

ElfFile::Symbol describe(const Elf64_Sym& symbol, const std::string& strings) {
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return {text_at(strings, symbol.st_name), symbol.st_shndx != SHN_UNDEF,
          ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || visibility == STV_HIDDEN ||
              visibility == STV_INTERNAL};
}

}  // namespace

const char* to_string(NcclLinkage linkage) {
  switch (linkage) {
    case NcclLinkage::kNone: return "has nothing of NCCL";
    case NcclLinkage::kLibrary: return "is a libnccl";
    case NcclLinkage::kDynamic: return "binds NCCL dynamically";
    case NcclLinkage::kExported: return "has NCCL linked in statically, called through the loader";
    case NcclLinkage::kBound: return "has NCCL linked in statically and bound inside";
    case NcclLinkage::kHidden: return "has NCCL linked in statically with local symbols";
  }
  return "?";
}

ElfFile::Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<ElfFile> ElfFile::open(const std::string& path) {
  ElfFile file;
  file.path_ = path;
  file.fd_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.fd_.get() < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kSystem;
    return Error(code, path + ": " + std::strerror(errno));
  }
  struct stat about {};
  if (::fstat(file.fd_.get(), &about) != 0)
    return Error(Code::kSystem, path + ": " + std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return file.malformed("it is not a regular file");
  file.bytes_ = static_cast<std::uint64_t>(about.st_size);
  file.device_ = about.st_dev;
  file.inode_ = about.st_ino;
  SABOT_TRY(file.load_headers());
  SABOT_TRY(file.load_sections());
  SABOT_TRY(file.load_dynamic());
  SABOT_TRY(file.load_notes());
  return file;
}

Error ElfFile::malformed(const std::string& reason) const {
  return Error(Code::kInvalidArgument, path_ + ": " + reason);
}

Status ElfFile::read(std::uint64_t offset, void* into, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    return malformed("it is cut short: " + std::to_string(bytes) + " bytes at offset " +
                     std::to_string(offset) + " lie outside its " + std::to_string(bytes_));
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_.get(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(Code::kSystem, path_ + ": " + std::strerror(errno));
    if (got == 0) return malformed("it became shorter while it was read");
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return {};
}

bool ElfFile::is_native() const { return header_.e_machine == kNativeMachine; }

Status ElfFile::load_headers() {
  if (bytes_ < sizeof(Elf64_Ehdr)) return malformed("it is too short for an ELF file");
  SABOT_TRY(read(0, &header_, sizeof header_));
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return malformed("it is not an ELF file");
  if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB)
    return malformed("it is not a 64-bit little-endian ELF file");
  if (header_.e_phnum > 0 && header_.e_phentsize != sizeof(Elf64_Phdr))
    return malformed("its program headers have an unknown size");
  segments_ = SABOT_TRY(table<Elf64_Phdr>(header_.e_phoff,
                                          std::uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr),
                                          "the program header table"));
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz > kNameBytesMax)
      return malformed("the name of its interpreter is too long");
    interpreter_.resize(segment.p_filesz);
    SABOT_TRY(read(segment.p_offset, interpreter_.data(), interpreter_.size()));
    interpreter_ = interpreter_.substr(0, interpreter_.find('\0'));
  }
  return {};
}

Status ElfFile::load_sections() {
  if (header_.e_shnum == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return {};
  auto sections = table<Elf64_Shdr>(
      header_.e_shoff, std::uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr), "the section table");
  // Loadable without them (sstrip removes them and some packers leave garbage).
  if (sections.ok()) sections_ = std::move(sections).value();
  return {};
}

const Elf64_Shdr* ElfFile::section_of_type(std::uint32_t type) const {
  const auto found =
      std::find_if(sections_.begin(), sections_.end(),
                   [&](const Elf64_Shdr& section) { return section.sh_type == type; });
  return found == sections_.end() ? nullptr : &*found;
}

Result<std::uint64_t> ElfFile::offset_of(std::uint64_t address, const char* what) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return malformed(std::string(what) + " lies in no part of the file");
}

Status ElfFile::load_dynamic() {
  const auto segment = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Elf64_Phdr& one) { return one.p_type == PT_DYNAMIC; });
  if (segment == segments_.end()) return {};
  has_dynamic_ = true;
  const auto entries =
      SABOT_TRY(table<Elf64_Dyn>(segment->p_offset, segment->p_filesz, "the dynamic section"));
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    switch (entry.d_tag) {
      case DT_SYMTAB: symbols_at_ = entry.d_un.d_ptr; break;
      case DT_STRTAB: strings_at_ = entry.d_un.d_ptr; break;
      case DT_STRSZ: strings_bytes_ = entry.d_un.d_val; break;
      case DT_HASH: hash_at_ = entry.d_un.d_ptr; break;
      case DT_GNU_HASH: gnu_hash_at_ = entry.d_un.d_ptr; break;
      case DT_JMPREL: plt_at_ = entry.d_un.d_ptr; break;
      case DT_PLTRELSZ: plt_bytes_ = entry.d_un.d_val; break;
      case DT_RELA: rela_at_ = entry.d_un.d_ptr; break;
      case DT_RELASZ: rela_bytes_ = entry.d_un.d_val; break;
      case DT_FLAGS_1: is_program_ = (entry.d_un.d_val & DF_1_PIE) != 0; break;
      default: break;
    }
  }
  if (strings_at_ == 0) return {};
  SABOT_TRY(load_dynamic_names(entries));
  return load_dynamic_symbols();
}

Status ElfFile::load_dynamic_names(const std::vector<Elf64_Dyn>& entries) {
  const std::uint64_t offset = SABOT_TRY(offset_of(strings_at_, "its dynamic string table"));
  const auto strings = SABOT_TRY(table<char>(offset, strings_bytes_, "the dynamic string table"));
  dynamic_strings_.assign(strings.begin(), strings.end());
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    const std::string text(text_at(dynamic_strings_, entry.d_un.d_val));
    if (entry.d_tag == DT_NEEDED) needed_.push_back(text);
    if (entry.d_tag == DT_SONAME) soname_ = text;
    if (entry.d_tag == DT_RPATH) rpath_ = text;
    if (entry.d_tag == DT_RUNPATH) runpath_ = text;
  }
  return {};
}

Status ElfFile::load_dynamic_symbols() {
  if (symbols_at_ == 0) return {};
  const std::uint64_t offset = SABOT_TRY(offset_of(symbols_at_, "its dynamic symbol table"));
  const std::uint64_t count = SABOT_TRY(dynamic_symbol_count());
  if (count > kTableBytesMax / sizeof(Elf64_Sym))
    return malformed("it claims " + std::to_string(count) + " dynamic symbols");
  dynamic_symbols_ =
      SABOT_TRY(table<Elf64_Sym>(offset, count * sizeof(Elf64_Sym), "the dynamic symbol table"));
  return {};
}

// The dynamic section does not say how many symbols there are: sections or hash tables do.
Result<std::uint64_t> ElfFile::dynamic_symbol_count() const {
  if (const Elf64_Shdr* section = section_of_type(SHT_DYNSYM))
    return section->sh_size / sizeof(Elf64_Sym);
  if (hash_at_ != 0) {
    const std::uint64_t offset = SABOT_TRY(offset_of(hash_at_, "its symbol hash table"));
    std::uint32_t head[2];
    SABOT_TRY(read(offset, head, sizeof head));
    return std::uint64_t{head[1]};
  }
  if (gnu_hash_at_ != 0) return count_by_gnu_hash(gnu_hash_at_);
  return std::uint64_t{0};
}

// Buckets hold the first symbol of a chain; the last chain ends at an odd hash value.
Result<std::uint64_t> ElfFile::count_by_gnu_hash(std::uint64_t address) const {
  const std::uint64_t offset = SABOT_TRY(offset_of(address, "its GNU hash table"));
  struct {
    std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  } head;
  SABOT_TRY(read(offset, &head, sizeof head));
  const std::uint64_t buckets_at = offset + sizeof head + std::uint64_t{head.bloom_words} * 8;
  const auto buckets = SABOT_TRY(
      table<std::uint32_t>(buckets_at, std::uint64_t{head.buckets} * 4, "the GNU hash table"));
  std::uint64_t last = 0;
  for (const std::uint32_t first : buckets) last = std::max<std::uint64_t>(last, first);
  if (last < head.first_symbol) return std::uint64_t{head.first_symbol};
  std::uint64_t at = buckets_at + std::uint64_t{head.buckets} * 4 + (last - head.first_symbol) * 4;
  while (at < bytes_) {
    const std::uint64_t piece = std::min<std::uint64_t>(bytes_ - at, kHashPieceBytes);
    for (const std::uint32_t hash :
         SABOT_TRY(table<std::uint32_t>(at, piece, "the GNU hash table"))) {
      ++last;
      if ((hash & 1) != 0) return last;
    }
    at += kHashPieceBytes;
  }
  return malformed("its GNU hash table has no end");
}

Status ElfFile::load_notes() {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_NOTE) continue;
    const auto bytes = table<char>(segment.p_offset, segment.p_filesz, "a note");
    if (!bytes.ok()) continue;  // a build id is a convenience
    build_id_ = build_id_in_notes(bytes.value().data(), bytes.value().size());
    if (!build_id_.empty()) return {};
  }
  return {};
}

bool ElfFile::exports(std::string_view name) const {
  bool found = false;
  each_dynamic_symbol([&](const Symbol& symbol) {
    found = symbol.defined && !symbol.local && symbol.name == name;
    return !found;
  });
  return found;
}

bool ElfFile::imports(std::string_view name) const {
  bool found = false;
  each_dynamic_symbol([&](const Symbol& symbol) {
    found = !symbol.defined && symbol.name == name;
    return !found;
  });
  return found;
}

void ElfFile::each_dynamic_symbol(const Visit& visit) const {
  for (const Elf64_Sym& symbol : dynamic_symbols_)
    if (!visit(describe(symbol, dynamic_strings_))) return;
}

Status ElfFile::each_symbol(const Visit& visit) const {
  const Elf64_Shdr* section = section_of_type(SHT_SYMTAB);
  if (section == nullptr) return {};
  if (section->sh_link >= sections_.size()) return malformed("its symbol table has no names");
  const Elf64_Shdr& names = sections_[section->sh_link];
  const auto symbols =
      SABOT_TRY(table<Elf64_Sym>(section->sh_offset, section->sh_size, "the symbol table"));
  const auto text = SABOT_TRY(table<char>(names.sh_offset, names.sh_size, "the string table"));
  const std::string strings(text.begin(), text.end());
  for (const Elf64_Sym& symbol : symbols)
    if (!visit(describe(symbol, strings))) break;
  return {};
}

}  // namespace sabot::real
