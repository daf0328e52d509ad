// The 128 bytes that bring ranks together: who made them, where the rendezvous listens, a random
// name.
//
// The id names its engine in clear text, so that ids of NVIDIA's NCCL and of the host engine are
// told apart before anybody connects anywhere. NVIDIA's library expects a socket family in bytes 8
// and 9; there stands text of ours, which is no family, so it refuses the id instead of dialling a
// stranger. A checksum catches ids that were cut by a string copy. Pure: no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace sabot::world {

inline constexpr std::size_t kUniqueIdBytes = 128;

struct UniqueId {
  std::array<char, kUniqueIdBytes> bytes{};
};

// 128 random bits: the same on all ranks of one world, different for every other world.
using WorldName = std::array<std::uint64_t, 2>;

struct Address {
  bool is_ipv6 = false;
  std::uint16_t port = 0;                // host byte order
  std::uint32_t scope = 0;               // interface index of a link-local IPv6 address
  std::array<std::uint8_t, 16> bytes{};  // network byte order; IPv4 uses the first four
};

struct IdContent {
  std::uint32_t api_version = 0;  // NCCL's version code, 23007 for 2.30.7
  std::int32_t creator_pid = 0;
  WorldName world{};
  Address address;
};

UniqueId write_id(const IdContent& content);

// InvalidArgument: zeros or damaged; InvalidUsage: another engine or another format made it.
Result<IdContent> read_id(const UniqueId& id);

}  // namespace sabot::world
