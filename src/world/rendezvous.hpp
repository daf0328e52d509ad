// The meeting place of one world: one helper thread that collects the ranks and introduces them.
//
// It runs in the process that asked for the id, which need not be a rank. It decides everything
// that takes more than one rank to know (twice, missing, disagreeing, dead) and tells every rank
// the same text, so that no rank waits for a world that cannot be. Its life is bounded: until all
// ranks are told, or the deadline; until the first rank comes, the lifetime of an unused id. The
// thread blocks all signals.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "world/unique_id.hpp"

namespace sabot::world {

struct ServeOptions {
  std::string interface;                       // selector of interface.hpp; empty = loopback
  std::uint32_t api_version = 0;               // every rank must bring the same
  std::uint64_t timeout_ns = 120'000'000'000;  // from the first rank's arrival to the last's
  std::uint64_t unused_lifetime_ns = 3'600'000'000'000;  // without any rank arriving
};

// Opens a rendezvous over TCP and returns the id by which ranks find it.
Result<UniqueId> open_rendezvous(const ServeOptions& options);

// A rendezvous without an id, for ranks that share a world already: they derive the name
// themselves. Which world name was taken is an error; ranks must be known.
Status open_named_rendezvous(const WorldName& name, int ranks, const ServeOptions& options);

// The local socket on which a world's rendezvous listens.
std::string local_socket_name(const WorldName& name);

// "2.30.7" from 23007.
std::string api_version_text(std::uint32_t code);

}  // namespace sabot::world
