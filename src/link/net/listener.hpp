// Waits for the one process that was given its handle, without ever blocking.
//
// Anybody can connect to a port. So a connection counts only once it has greeted with the nonce
// that the handle carries; until then it waits among a few, with a deadline, and the oldest gives
// way when there are too many. A silent stranger thus costs nothing and holds nobody up.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "link/net/endpoint.hpp"
#include "link/net/receiver.hpp"

namespace sabot::link::net {

class Listener {
 public:
  static constexpr std::size_t kStrangersMax = 16;
  static constexpr std::uint64_t kGreetingPatienceNs = 20'000'000'000;

  // address: of a device, port 0. The endpoint outlives the listener.
  static Result<std::unique_ptr<Listener>> open(Endpoint& endpoint, const Address& address);

  const Handle& handle() const { return handle_; }
  // Null: nobody has come yet; call again. One thread at a time. kRemote: the link is cut, here or
  // there. kSystem.
  Result<std::unique_ptr<Receiver>> accept();

 private:
  struct Stranger {
    Fd fd;
    std::uint64_t deadline_ns = 0;
    std::size_t got = 0;
    std::array<std::byte, kGreetingBytes> bytes{};
  };
  enum class Standing { kWaiting, kGone, kGreeted, kCut };

  Listener(Endpoint& endpoint, Fd fd, const Handle& handle)
      : endpoint_(endpoint), fd_(std::move(fd)), handle_(handle) {}
  Status let_in();
  Standing hear(Stranger& stranger);

  Endpoint& endpoint_;
  Fd fd_;
  Handle handle_;
  std::vector<Stranger> strangers_;  // oldest first
  Greeting greeting_;                // of the one who greeted last
  std::string cut_text_;             // why that one was not taken
};

}  // namespace sabot::link::net
