// Connects to listeners without blocking: one call after the other until the connection stands.
//
// NCCL repeats connect with the same handle, at the same place in memory, until it is given a
// connection. An attempt is remembered by that place and by the handle's nonce, on our side: a
// pointer kept inside the handle would be taken from bytes that another process wrote. Attempts
// that nobody asks about any more, because NCCL gave up, are dropped when they are old.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "link/net/endpoint.hpp"
#include "link/net/sender.hpp"

namespace sabot::link::net {

// How long a connection may take, and an attempt may lie unasked for.
struct Patience {
  std::uint64_t connect_ns = 60'000'000'000;
  std::uint64_t retry_ns = 50'000'000;  // between attempts at a port where nobody listens (yet)
  std::uint64_t forgotten_ns = 60'000'000'000;
  std::uint64_t farewell_ns = 1'000'000'000;  // for telling the listener that the link is cut
};

class Dialer {
 public:
  static constexpr std::size_t kAttemptsMax = 4096;

  explicit Dialer(Endpoint& endpoint, Patience patience = {})
      : endpoint_(endpoint), patience_(patience) {}

  // Null: not yet; call again. key: where the handle lies. Any thread. kInvalidArgument: not a
  // handle. kRemote: cut, or nobody answered in time. kSystem.
  Result<std::unique_ptr<Sender>> connect(const void* key,
                                          std::span<const std::byte, kHandleBytes> handle);
  std::size_t attempt_count();

 private:
  struct Attempt {
    const void* key = nullptr;
    Handle handle;
    std::uint64_t deadline_ns = 0;
    std::uint64_t asked_ns = 0;
    std::uint64_t retry_at_ns = 0;
    Fd fd;
    bool is_connected = false;
    std::string cut_text;     // why it will not be a connection, "" = it may be one
    std::size_t greeted = 0;  // bytes of the greeting that are out
  };

  std::list<Attempt>::iterator find(const void* key, const Handle& handle);
  Result<bool> advance(Attempt& attempt, std::uint64_t now);
  Result<bool> go_on(Attempt& attempt, std::uint64_t now);
  Result<bool> try_again(Attempt& attempt, std::uint64_t now, const std::string& why);
  Result<bool> greet(Attempt& attempt, std::uint64_t now);
  Error unreachable(const Attempt& attempt, const std::string& why) const;

  Endpoint& endpoint_;
  const Patience patience_;
  std::mutex mutex_;
  std::list<Attempt> attempts_;
};

}  // namespace sabot::link::net
