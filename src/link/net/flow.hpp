// One direction of a connection: what sender and receiver have in common.
//
// The one idea: nothing runs behind the caller's back. A request takes the next place in a ring; a
// test of any request moves whatever can be moved without waiting, in the order of the ring. One
// thread at a time uses a flow, as NCCL's proxy does. The first failure is final: it closes the
// connection with a reset, so that the peer hears of it too, and every later test returns it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "link/net/rules.hpp"
#include "link/net/wire.hpp"

namespace sabot::link::net {

class Flow;

// In flight from being posted until a test finds it done.
struct Request {
  Flow* flow = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;      // to send; of the buffer until received, then received
  std::uint64_t posted_ns = 0;  // when a delay began to count, 0: none has
  bool is_used = false;
  bool is_done = false;
};

// At most 32 are asked of a plugin at a time (NCCL_NET_MAX_REQUESTS), 8 by older releases.
inline constexpr std::size_t kRequestsMax = 64;

// Who is at the other end.
struct Peer {
  Identity identity;
  Address address;
  // "rank 1 (127.0.0.1:40123)", or "process 4711 (…)" where the rank is not known.
  std::string name() const;
};

// All open connections of a process, by who is at the other end: a cut link ends each of them at
// once, also those that nobody asks about any more because NCCL stopped at the first error.
class Roster {
 public:
  void add(int world_rank, int fd);
  void remove(int world_rank, int fd);
  // Ends what is open to this peer; its descriptors stay open, and read as ended on both sides.
  void end_all(int world_rank);

 private:
  std::mutex mutex_;
  std::multimap<int, int> open_;  // world rank, -1 for all that are unknown → descriptor
};

struct Connection {
  Fd fd;
  Peer peer;
  std::shared_ptr<Pace> pace;
  const RuleSource* rules = nullptr;  // outlives the flow, as does the roster
  Roster* roster = nullptr;
  int world_rank = -1;  // our own, for messages
};

class Flow {
 public:
  virtual ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Null: the ring is full; test what is in it. The memory stays the caller's and has to stay valid
  // until the request is done.
  Request* post(void* data, std::uint64_t bytes);
  // Moves what can be moved. Whether the request is done, which ends it; then *bytes (may be null)
  // is what was moved. kRemote: the peer or the link failed. kSystem, kInvalidUsage.
  Result<bool> test(Request& request, std::uint64_t* bytes);

  const Peer& peer() const { return connection_.peer; }
  int descriptor() const { return connection_.fd.get(); }

 protected:
  explicit Flow(Connection connection);

  // Moves what can be moved; an error is final.
  virtual Status progress(const sabot_link_rule_t& rule) = 0;
  // What it was doing, for messages: "sending message 7 to rank 1 (…)".
  virtual std::string doing() const = 0;

  Request& at(std::uint64_t place) { return requests_[place % kRequestsMax]; }
  int fd() const { return connection_.fd.get(); }
  Pace& pace() { return *connection_.pace; }
  // Of errno after a socket call.
  Error socket_error(int number) const;
  Error remote_error(const std::string& what) const;

  std::uint64_t begun_ = 0;  // the first request that is not done
  std::uint64_t posted_ = 0;

 private:
  Status advance();
  Error failure() const;
  void leave_roster();

  Connection connection_;
  RuleView rule_;
  std::array<Request, kRequestsMax> requests_{};
  bool has_failed_ = false;
  Code failure_code_ = Code::kInternal;
  std::string failure_text_;
};

}  // namespace sabot::link::net
