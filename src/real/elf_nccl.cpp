// How NCCL is bound into a file: the questions that decide whether a preload can see its calls.
#include <algorithm>
#include <string>

#include "real/elf_file.hpp"

namespace sabot::real {
namespace {

constexpr std::uint64_t kScanBytes = 1u << 20;
constexpr std::uint64_t kAfterBytes = 48;

// NCCL prints "NCCL version 2.28.9+cuda13.0" at start-up, so the text stays in the read-only data
// of a stripped program. It is put together here, or every file that contains this code would look
// like NCCL.
std::string marker() { return std::string("NCCL version") + " 2."; }

// What follows the marker in NCCL itself; messages of frameworks say "NCCL version 2.17 or newer".
bool continues_as_in_nccl(std::string_view after) {
  const std::size_t digits = after.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string_view::npos) return false;
  const std::size_t cuda = after.find("+cuda");
  return cuda != std::string_view::npos &&
         after.substr(0, cuda).find('\0') == std::string_view::npos;
}

// What every program that creates a communicator needs; a plugin's ncclNetPlugin_v8 is not among
// them.
bool is_core_name(std::string_view name) {
  return name == "ncclAllReduce" || name == "ncclCommInitRank" || name == "ncclGetVersion" ||
         name == "ncclCommInitRankConfig" || name == "ncclGetUniqueId";
}

bool is_nccl_library_name(std::string_view name) { return name.substr(0, 10) == "libnccl.so"; }

}  // namespace

Result<bool> ElfFile::relocates_against(std::string_view prefix) const {
  const std::pair<std::uint64_t, std::uint64_t> tables[] = {{plt_at_, plt_bytes_},
                                                            {rela_at_, rela_bytes_}};
  for (const auto& [address, bytes] : tables) {
    if (address == 0 || bytes == 0) continue;
    const std::uint64_t offset = SABOT_TRY(offset_of(address, "its relocation table"));
    const auto relocations = SABOT_TRY(table<Elf64_Rela>(offset, bytes, "the relocation table"));
    for (const Elf64_Rela& relocation : relocations) {
      const std::uint64_t index = ELF64_R_SYM(relocation.r_info);
      if (index == 0 || index >= dynamic_symbols_.size()) continue;
      const std::uint32_t name = dynamic_symbols_[index].st_name;
      if (name < dynamic_strings_.size() &&
          dynamic_strings_.compare(name, prefix.size(), prefix) == 0)
        return true;
    }
  }
  return false;
}

namespace {

// Whether text occurs in window so that what follows is accepted; only where enough follows, or at
// the end.
bool occurs(std::string_view window, std::string_view text, const ElfFile::Accept& accept) {
  for (std::size_t at = window.find(text); at != std::string_view::npos;
       at = window.find(text, at + 1))
    if (!accept || accept(window.substr(at + text.size(), kAfterBytes))) return true;
  return false;
}

}  // namespace

Result<bool> ElfFile::contains_text(std::string_view text, const Accept& accept) const {
  std::string window;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    std::uint64_t at = segment.p_offset;
    std::uint64_t left = segment.p_filesz;
    window.clear();
    while (left > 0) {
      // The end of the last piece stays in front, or a match across two pieces would be missed.
      const std::size_t kept = std::min(window.size(), text.size() + kAfterBytes - 1);
      window.erase(0, window.size() - kept);
      const std::uint64_t bytes = std::min(left, kScanBytes);
      window.resize(kept + bytes);
      SABOT_TRY(read(at, window.data() + kept, bytes));
      if (occurs(window, text, accept)) return true;
      at += bytes;
      left -= bytes;
    }
  }
  return false;
}

Result<NcclLinkage> ElfFile::nccl_linkage() const {
  bool defines = false;
  bool imports_some = false;
  each_dynamic_symbol([&](const Symbol& symbol) {
    if (is_core_name(symbol.name)) (symbol.defined ? defines : imports_some) = true;
    return true;
  });
  if (defines) {
    if (is_nccl_library_name(soname_)) return NcclLinkage::kLibrary;
    return SABOT_TRY(relocates_against("nccl")) ? NcclLinkage::kExported : NcclLinkage::kBound;
  }
  if (imports_some || std::any_of(needed_.begin(), needed_.end(), is_nccl_library_name))
    return NcclLinkage::kDynamic;
  bool hidden = false;
  SABOT_TRY(each_symbol([&](const Symbol& symbol) {
    hidden = symbol.defined && is_core_name(symbol.name);
    return !hidden;
  }));
  if (!hidden) hidden = SABOT_TRY(contains_text(marker(), continues_as_in_nccl));
  return hidden ? NcclLinkage::kHidden : NcclLinkage::kNone;
}

}  // namespace sabot::real
