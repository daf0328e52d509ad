// What the host engine is told by whoever composes it; it reads no environment itself.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "link/net/rules.hpp"

namespace sabot::comm {

// How much of an error is written to the log sink, besides being returned.
enum class Verbosity : std::uint8_t {
  kSilent,  // nothing
  kWarn,    // the text of every error
  kInfo,    // also the life of communicators
};

// A setting as ncclParam* shows it. Text that is a decimal integer can be read as a number.
struct Parameter {
  std::string key;
  std::string value;
};

struct Options {
  // The longest wait for a rank at a rendezvous, for a peer to come along in split, shrink and
  // grow, and for peers to take what was sent before a communicator is destroyed.
  std::uint64_t timeout_ns = 120'000'000'000;
  std::string interface;  // where rendezvous listen, as SABOT_SOCKET_IFNAME; empty = loopback
  Verbosity verbosity = Verbosity::kSilent;
  int api_version = NCCL_VERSION_CODE;  // what ncclGetVersion says
  std::vector<Parameter> parameters;    // shown by ncclParam*
  // The rules of link faults for one rank of a communicator; empty: none are heeded.
  std::function<std::unique_ptr<const link::net::RuleSource>(const void* comm, int rank)> links =
      {};
};

}  // namespace sabot::comm
