// What travels between two processes: the handle, the greeting, and the head of each message.
//
// A handle is what NCCL passes from the listener to the connector by its own ways, in 128 bytes; a
// greeting is the first thing on a connection; then come messages, each a head and its payload. All
// are fixed structs of little-endian numbers, read with every field doubted: the bytes may come
// from anybody who found the port. The sequence number in a head makes lost messages visible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "link/net/address.hpp"

namespace sabot::link::net {

// Who stands at one end of a connection.
struct Identity {
  std::int32_t world_rank = -1;  // -1: unknown
  std::int32_t process = 0;      // its id on its host
};

inline constexpr std::size_t kHandleBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE
struct Handle {
  Address address;
  Identity listener;
  std::uint64_t nonce = 0;  // whoever greets with it was told of this listener
};
void write_handle(const Handle& handle, std::span<std::byte, kHandleBytes> bytes);
// kInvalidArgument: not a handle of this version.
Result<Handle> read_handle(std::span<const std::byte, kHandleBytes> bytes);

inline constexpr std::size_t kGreetingBytes = 48;
struct Greeting {
  Identity connector;
  std::uint64_t nonce = 0;
  bool is_cut = false;  // it only comes to say that its side has cut the link
};
std::array<std::byte, kGreetingBytes> write_greeting(const Greeting& greeting);
Result<Greeting> read_greeting(std::span<const std::byte, kGreetingBytes> bytes);

// NCCL's sizes are ints.
inline constexpr std::uint32_t kMessageBytesMax = 0x7FFFFFFF;
inline constexpr std::uint32_t kHeadMagic = 0x6D624153;  // "SAbm"
struct Head {
  std::uint32_t magic = kHeadMagic;
  std::uint32_t bytes = 0;     // of the payload
  std::uint64_t sequence = 0;  // 0 for the first message of a connection
};
inline constexpr std::size_t kHeadBytes = sizeof(Head);
static_assert(kHeadBytes == 16);

}  // namespace sabot::link::net
