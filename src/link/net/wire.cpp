// Reading and writing handles and greetings.
#include "link/net/wire.hpp"

#include <bit>
#include <cstring>

namespace sabot::link::net {
namespace {

static_assert(std::endian::native == std::endian::little, "wire structs are little-endian");

constexpr std::uint64_t kHandleMagic = 0x31485F544F424153;    // "SABOT_H1"
constexpr std::uint64_t kGreetingMagic = 0x31475F544F424153;  // "SABOT_G1"

struct HandleBytes {
  std::uint64_t magic;
  std::uint64_t nonce;
  std::int32_t world_rank;
  std::int32_t process;
  std::uint16_t family;
  std::uint16_t port;
  std::uint32_t scope;
  std::uint8_t address[16];
  std::uint64_t check;  // of all before it
};
static_assert(sizeof(HandleBytes) <= kHandleBytes);

struct GreetingBytes {
  std::uint64_t magic;
  std::uint64_t nonce;
  std::int32_t world_rank;
  std::int32_t process;
  std::uint64_t is_cut;    // 0 or 1
  std::uint64_t reserved;  // 0
  std::uint64_t check;
};
static_assert(sizeof(GreetingBytes) == kGreetingBytes);

// FNV-1a: against mistakes, not against malice.
template <typename T>
std::uint64_t check_of(const T& wire) {
  std::uint64_t hash = 0xCBF29CE484222325;
  std::array<unsigned char, sizeof(T) - sizeof(wire.check)> bytes;
  std::memcpy(bytes.data(), &wire, bytes.size());
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001B3;
  return hash;
}

Error not_ours(const char* what) {
  return Error(Code::kInvalidArgument,
               std::string(what) +
                   " was not made by this version of libnccl-net-sabot.so; do all ranks load "
                   "the same one (NCCL_NET_PLUGIN)?");
}

bool is_plausible(std::int32_t world_rank) { return world_rank >= -1; }

}  // namespace

void write_handle(const Handle& handle, std::span<std::byte, kHandleBytes> bytes) {
  HandleBytes wire{};
  wire.magic = kHandleMagic;
  wire.nonce = handle.nonce;
  wire.world_rank = handle.listener.world_rank;
  wire.process = handle.listener.process;
  wire.family = handle.address.is_ipv6 ? 6 : 4;
  wire.port = handle.address.port;
  wire.scope = handle.address.scope;
  std::memcpy(wire.address, handle.address.bytes.data(), sizeof wire.address);
  wire.check = check_of(wire);
  std::memset(bytes.data(), 0, bytes.size());
  std::memcpy(bytes.data(), &wire, sizeof wire);
}

Result<Handle> read_handle(std::span<const std::byte, kHandleBytes> bytes) {
  HandleBytes wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const bool is_sound = wire.magic == kHandleMagic && wire.check == check_of(wire) &&
                        (wire.family == 4 || wire.family == 6) && wire.port != 0 &&
                        is_plausible(wire.world_rank);
  if (!is_sound) return not_ours("the handle of the listening rank");
  Handle handle;
  handle.nonce = wire.nonce;
  handle.listener = {wire.world_rank, wire.process};
  handle.address.is_ipv6 = wire.family == 6;
  handle.address.port = wire.port;
  handle.address.scope = wire.scope;
  std::memcpy(handle.address.bytes.data(), wire.address, sizeof wire.address);
  return handle;
}

std::array<std::byte, kGreetingBytes> write_greeting(const Greeting& greeting) {
  GreetingBytes wire{};
  wire.magic = kGreetingMagic;
  wire.nonce = greeting.nonce;
  wire.world_rank = greeting.connector.world_rank;
  wire.process = greeting.connector.process;
  wire.is_cut = greeting.is_cut ? 1 : 0;
  wire.check = check_of(wire);
  std::array<std::byte, kGreetingBytes> bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

Result<Greeting> read_greeting(std::span<const std::byte, kGreetingBytes> bytes) {
  GreetingBytes wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const bool is_sound = wire.magic == kGreetingMagic && wire.check == check_of(wire) &&
                        wire.is_cut <= 1 && wire.reserved == 0 && is_plausible(wire.world_rank);
  if (!is_sound) return not_ours("the greeting of a connecting process");
  return Greeting{{wire.world_rank, wire.process}, wire.nonce, wire.is_cut == 1};
}

}  // namespace sabot::link::net
