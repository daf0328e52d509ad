// The format has no published header: a magic text, counts, then entries whose offsets count from
// the magic. An older format may stand in front, so the magic is searched for.
#include "real/ld_cache.hpp"

#include <cstdint>
#include <cstring>

namespace sabot::real {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::uint32_t kEntriesMax = 1u << 20;
// The low byte says "ELF of the C library's second version"; the next one names the machine's word.
constexpr std::int32_t kTypeMask = 0x00ff;
constexpr std::int32_t kTypeLibc6 = 3;
constexpr std::int32_t kMachineMask = 0xff00;
#if defined(__x86_64__)
constexpr std::int32_t kMachine = 0x0300;
#elif defined(__aarch64__)
constexpr std::int32_t kMachine = 0x0a00;
#else
constexpr std::int32_t kMachine = -1;  // any
#endif

struct Header {
  char magic[20];
  std::uint32_t entries;
  std::uint32_t strings_bytes;
  std::uint8_t flags;
  std::uint8_t padding[3];
  std::uint32_t extensions;
  std::uint32_t unused[3];
};
static_assert(sizeof(Header) == 48);

struct Entry {
  std::int32_t flags;
  std::uint32_t name;
  std::uint32_t path;
  std::uint32_t os_version;
  std::uint64_t hardware;
};
static_assert(sizeof(Entry) == 24);

std::string_view text_at(std::string_view bytes, std::uint32_t offset) {
  if (offset >= bytes.size()) return {};
  const std::size_t end = bytes.find('\0', offset);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(offset, end - offset);
}

}  // namespace

std::vector<std::string> paths_in_ld_cache(std::string_view bytes, std::string_view name) {
  std::vector<std::string> paths;
  const std::size_t begin = bytes.find(kMagic);
  if (begin == std::string_view::npos || bytes.size() - begin < sizeof(Header)) return paths;
  bytes.remove_prefix(begin);
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t room = (bytes.size() - sizeof header) / sizeof(Entry);
  if (header.entries > kEntriesMax || header.entries > room) return paths;
  for (std::uint32_t i = 0; i < header.entries; ++i) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + sizeof header + i * sizeof entry, sizeof entry);
    if ((entry.flags & kTypeMask) != kTypeLibc6) continue;
    if (kMachine != -1 && (entry.flags & kMachineMask) != kMachine) continue;
    if (text_at(bytes, entry.name) != name) continue;
    const std::string_view path = text_at(bytes, entry.path);
    if (!path.empty() && path.front() == '/') paths.emplace_back(path);
  }
  return paths;
}

}  // namespace sabot::real
