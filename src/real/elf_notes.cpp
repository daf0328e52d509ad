// Notes are (name length, content length, type, name, content), each padded to four bytes.
#include "real/elf_notes.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace sabot::real {
namespace {

constexpr std::size_t kBuildIdBytesMax = 64;

std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

std::string build_id_in_notes(const char* notes, std::size_t bytes) {
  while (bytes >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t name_bytes = padded(note.n_namesz);
    const std::size_t content_bytes = padded(note.n_descsz);
    const std::size_t total = sizeof note + name_bytes + content_bytes;
    if (total > bytes) return {};
    const char* name = notes + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
        note.n_descsz <= kBuildIdBytesMax)
      return hexadecimal(reinterpret_cast<const unsigned char*>(name + name_bytes), note.n_descsz);
    notes += total;
    bytes -= total;
  }
  return {};
}

}  // namespace sabot::real
