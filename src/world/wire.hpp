// The messages of the rendezvous: plain structs of fixed size, same machine and same release on
// both ends.
//
//   rank → server, TCP    Hello                 who I am; or that I failed, and why
//   server → rank, TCP    Welcome               the name of the local socket; or why the world
//   failed rank → server, local  Hello + descriptors   the life file (unless same process), rank
//   0's gift server → rank, local  Answer kMembers …     everybody, with life files; rank 0's gift
//   in the first rank → server, local  Report                I am ready; or I failed server → rank,
//   local  Answer kGo | kFailed
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "world/life.hpp"
#include "world/unique_id.hpp"

namespace sabot::world {

inline constexpr std::uint64_t kWireMagic = 0x31303044'5a424153;  // arbitrary, ours
inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::size_t kTextBytes = 1024;

// Text of bounded length with its terminator; longer text is cut.
template <std::size_t N>
struct Text {
  std::array<char, N> chars{};
  void set(std::string_view text) {
    chars.fill(0);
    std::memcpy(chars.data(), text.data(), std::min(text.size(), N - 1));
  }
  std::string get() const { return std::string(chars.data(), ::strnlen(chars.data(), N)); }
};

// An error on the wire; code 0 is success, otherwise 1 + Code.
struct Outcome {
  std::uint32_t code = 0;
  std::uint32_t reserved = 0;
  Text<kTextBytes> text;

  bool ok() const { return code == 0; }
  Error error() const { return Error(static_cast<Code>(code - 1), text.get()); }
  void set(const Error& error) {
    code = 1 + static_cast<std::uint32_t>(error.code());
    text.set(error.message());
  }
};

struct Hello {
  std::uint64_t magic = kWireMagic;
  std::uint32_t protocol = kProtocol;
  std::uint32_t api_version = 0;
  WorldName world{};
  std::int32_t rank = -1;
  std::int32_t ranks = 0;
  std::int32_t pid = 0;
  std::uint32_t is_discard = 0;  // nobody will use this id: end
  ProcessKey process = 0;
  Text<64> machine;
  Text<64> machine_name;
  Outcome outcome;  // a failed rank says so here instead of joining
};

struct Welcome {
  Text<64> local_name;
  Outcome outcome;
};

struct MemberEntry {
  std::int32_t pid = 0;
  std::uint32_t has_fd = 0;  // this packet carries the process's life file
  ProcessKey process = 0;
};
inline constexpr std::size_t kEntriesPerPacket = 64;

enum class AnswerKind : std::uint32_t { kMembers = 1, kGo = 2, kFailed = 3 };

struct Answer {
  AnswerKind kind = AnswerKind::kFailed;
  std::uint32_t first = 0;  // rank of entries[0]
  std::uint32_t count = 0;
  std::uint32_t has_gift = 0;
  std::array<MemberEntry, kEntriesPerPacket> entries{};
  Outcome outcome;
};

struct Report {
  std::uint64_t magic = kWireMagic;
  Outcome outcome;
};

template <typename T>
std::span<const std::byte> bytes_of_message(const T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span<const T, 1>(&message, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of_message(T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span<T, 1>(&message, 1));
}

}  // namespace sabot::world
