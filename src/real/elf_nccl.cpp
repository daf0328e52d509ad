// How NCCL is bound into a file: the questions that decide whether a preload can see its calls.
#include <algorithm>
#include <cstring>
#include <string>

#include "real/elf_file.hpp"

namespace sabot::real {
namespace {

constexpr std::uint64_t kScanBytes = 1u << 20;
// NCCL prints it at start-up, so it stays in the read-only data of a stripped program.
constexpr std::string_view kMarker = "NCCL version 2.";

// What every program that creates a communicator needs; a plugin's ncclNetPlugin_v8 is not among them.
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
      if (name < dynamic_strings_.size() && dynamic_strings_.compare(name, prefix.size(), prefix) == 0)
        return true;
    }
  }
  return false;
}

Result<bool> ElfFile::contains_text(std::string_view text) const {
  if (text.empty()) return true;
  std::string window;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    std::uint64_t at = segment.p_offset;
    std::uint64_t left = segment.p_filesz;
    window.clear();
    while (left > 0) {
      // The end of the last piece stays in front, or a match across two pieces would be missed.
      const std::size_t kept = std::min(window.size(), text.size() - 1);
      window.erase(0, window.size() - kept);
      const std::uint64_t bytes = std::min(left, kScanBytes);
      window.resize(kept + bytes);
      SABOT_TRY(read(at, window.data() + kept, bytes));
      if (::memmem(window.data(), window.size(), text.data(), text.size()) != nullptr) return true;
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
  if (!hidden) hidden = SABOT_TRY(contains_text(kMarker));
  return hidden ? NcclLinkage::kHidden : NcclLinkage::kNone;
}

}  // namespace sabot::real
