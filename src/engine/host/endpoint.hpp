// One rank's end of a communicator on CPU memory: runs collectives and send/recv over a shared
// segment.
//
// The one idea: an operation is a Task, a small state machine that never blocks. One thread can
// drive many (the operations of a group, several ranks of one communicator, both sides of an
// exchange), and the blocking call is nothing but "advance, else wait a little". What moves where
// is decided by schedule::choose and schedule::Program; this module moves the bytes, gives credit,
// and notices mismatched calls, dead peers and aborts. Streams, groups, async results and who gets
// which Error are left to comm; finding peers and watching their processes to world.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/datatype.hpp"
#include "base/result.hpp"
#include "engine/host/gate.hpp"
#include "link/liveness.hpp"
#include "link/segment.hpp"
#include "schedule/schedule.hpp"

namespace sabot::host {

using link::DeadPeer;
using link::Liveness;

// One operation with NCCL's meaning of count, root and in-place (see schedule::Request).
struct Operation {
  enum class Kind : std::uint8_t { kCollective, kSend, kRecv };
  Kind kind = Kind::kCollective;
  schedule::Collective collective = schedule::Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;                 // broadcast, reduce, gather, scatter
  int peer = -1;                // send, recv; may be the own rank
  const void* input = nullptr;  // may be null where this rank has no input, or count is 0
  void* output = nullptr;       // may be null where this rank has no output, or count is 0
  std::uint64_t count = 0;
  std::uint64_t premul_bits = 0;  // kPreMulSum: this rank's scalar: the bytes of one element
};

enum class Progress : std::uint8_t {
  kDone,
  kBlocked,  // a peer has to act first; advance again, after a pause
  kFailed,   // see Task::error(); final
};

class Endpoint;

// When a waiting operation looked for trouble, and what it saw. Private to this module.
struct Watch {
  std::uint32_t polls = 0;
  std::uint64_t looked_at_ns = 0;
  schedule::RankMask waiting = 0;  // the peers that have to act before it goes on
  schedule::RankMask gone = 0;     // those of them that were seen to have left, a look ago
};

// One running operation. Filled by Endpoint::start; must then be advanced until it is done or
// failed. Any thread may advance it, one at a time. Tasks of one endpoint may be driven by
// different threads. Must outlive neither its endpoint nor the operation's buffers. Destroying an
// unfinished task aborts its endpoint, since peers would wait for it for ever. Not movable: make it
// where it stays.
class Task {
 public:
  Task() = default;
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Does all that is possible without waiting. Cheap to repeat. Once it returned kDone or kFailed
  // it returns the same for good.
  Progress advance();

  // Why it failed; ok unless advance() returned kFailed.
  const Status& status() const { return status_; }
  Status take_status() { return std::move(status_); }
  // The collective's number on this communicator (1-based), 0 for send and recv.
  std::uint64_t number() const;
  // Grows whenever advance() got on, even if it is blocked again: the moment to Waiter::reset().
  std::uint64_t steps() const { return steps_; }

 private:
  friend class Endpoint;
  friend class Executor;
  friend class Exchange;

  enum class State : std::uint8_t { kIdle, kQueued, kRunning, kDone, kFailed };

  // Continues a flat all-reduce of one chunk whose message has been put already.
  void resume_after_put();

  Endpoint* endpoint_ = nullptr;
  State state_ = State::kIdle;
  bool has_step_ = false;
  Operation operation_{};
  std::uint64_t place_ = 0;  // in the queue of its kind
  std::uint64_t signature_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t due_ns_ = 0;        // of the message that a link fault delays
  std::uint64_t moved_bytes_ = 0;   // send, recv
  schedule::RankMask pending_ = 0;  // sources of the current step that have not arrived
  schedule::RankMask heard_ = 0;    // ranks from which a message of this collective has arrived
  Watch watch_{};
  schedule::Step step_;
  schedule::Program program_;
  Status status_;
};

// How a caller waits between two advance() calls that were blocked: spins for microseconds while
// there is a processor for every rank, then (oversubscribed: from the start) gives way, and sleeps
// in growing naps after about 1 ms, so that a rank that waits long costs next to nothing. One for
// each wait, or reset() after progress: how a wait ends teaches the next ones of this process
// whether spinning helps.
class Waiter {
 public:
  explicit Waiter(bool oversubscribed) : oversubscribed_(oversubscribed) { begin(); }
  ~Waiter() { end(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void pause();
  void reset() {
    end();
    begin();
  }

 private:
  void begin();
  void end() const;
  void pause_long();
  bool oversubscribed_;
  std::uint32_t spins_ = 0;  // rounds of this wait that spin
  std::uint32_t rounds_ = 0;
  std::uint64_t since_ns_ = 0;
};

// How an endpoint runs; must be the same on all ranks of a communicator.
struct Options {
  // Taken for every collective that it can do, instead of what schedule::choose finds fastest.
  std::optional<schedule::Algorithm> algorithm;
};

class Endpoint {
 public:
  // Opens rank's end. liveness may be null (no detection of dead peers) and must outlive the
  // endpoint. Errors: kInvalidArgument (rank), kInvalidUsage (this rank is open already).
  static Result<std::unique_ptr<Endpoint>> open(std::shared_ptr<link::Segment> segment, int rank,
                                                Liveness* liveness, Options options = {});
  // Leaves: peers that wait for this rank get an error, unless finalize() succeeded before. In a
  // forked child this and abort() say nothing to the peers; nothing else may be called there.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  // From now on messages heed these rules of link faults. Before the first operation only.
  void heed(std::unique_ptr<const link::net::RuleSource> rules);
  // More ranks than processors that they may use; what Waiter wants to know.
  bool oversubscribed() const;

  // Checks the operation, gives it its place (collectives: the next number of this communicator;
  // send, recv: next to that peer) and prepares the task. Never blocks. Thread-safe; the order of
  // calls is the order of execution, whatever thread advances the tasks later. Errors, which take
  // no place: kInvalidArgument, kUnsupported; and the failure of this communicator, if it has one.
  Status start(Task& task, const Operation& operation);

  // start, then advance and wait to the end. The way for one blocking operation: no allocation
  // unless it fails. Do not use it for one of several operations that depend on each other.
  Status run(const Operation& operation);

  // Ends this rank's part at once: its tasks return kAborted promptly, whichever thread drives
  // them, and so does every later operation; peers that wait for it get kRemote "rank 1 aborted its
  // communicator". Any thread, any number of times, async-signal-safe.
  void abort();
  // Relaxed: the flag carries no data with it.
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

  // ok while the communicator is usable, else why not: kInvalidUsage (mismatched calls), kRemote (a
  // peer died, left or aborted), kAborted (by this rank). Cheap; asks for dead peers at most every
  // 100 ms.
  Status async_error();

  // Byte channels: an ordered stream per ordered pair, over the channels of send and recv, which a
  // pair uses either way but not both. They move what they can now and never block; one thread at a
  // time per peer and direction. Errors: kInvalidUsage (the other use), kRemote (that peer left or
  // aborted, once all it put was taken), the failure of this communicator.
  Result<std::size_t> put_bytes(int peer, std::span<const std::byte> bytes);
  Result<std::size_t> take_bytes(int peer, std::span<std::byte> bytes);
  bool has_bytes(int peer) const;

  // The newest collective that a rank has begun to run, 0 for none.
  std::uint64_t entered(int rank) const;
  // Makes the communicator fail with kRemote and this text on all ranks; the first failure stands.
  void declare_failed(int culprit, const std::string& text);

  // Whether all that this rank sent has been taken by its peers; kFailed: async_error() says why.
  Progress advance_finalize();
  // Waits for that. After success peers take this rank's leaving as clean.
  Status finalize();

  link::Segment& segment() { return *segment_; }

 private:
  friend class Task;
  friend class Executor;
  friend class Exchange;
  struct State;

  void place(Task& task, const Operation& operation, std::uint64_t number);
  Status wait(Task& task);
  Status claim_channel(const Operation& operation);
  bool is_small_all_reduce(const Operation& operation) const;
  Status run_small_all_reduce(const Operation& operation);
  // Where every wait ends up: fails the task if it is hopeless, else kBlocked.
  Progress blocked(Task& task);
  Progress fail(Task& task, Error error);
  // Looks for what would make this wait endless; about every 20 ms. number 0: not a collective.
  Status look(Watch& watch, std::uint64_t number, std::uint64_t signature);
  Status look_for_trouble(Watch& watch, std::uint64_t number, std::uint64_t signature);
  Status look_for_dead();
  Result<std::size_t> nothing_to_take(int peer);
  // Whether a message may go to its readers now; an error ends the communicator.
  Result<Gate::Passage> pass(schedule::RankMask readers, std::size_t bytes, std::uint64_t& due_ns);
  // Whether nothing comes in from some of these now.
  Result<bool> is_closed(schedule::RankMask sources);
  Error poison(link::FailureKind kind, int culprit, const std::string& text);
  Error error_of(const link::Failure& failure) const;
  Error mismatch(int peer, std::uint64_t number, std::uint64_t mine, std::uint64_t theirs);
  Error aborted_error() const;
  Status usable() const;
  schedule::Plan plan(const schedule::Request& request) const;

  Endpoint(std::shared_ptr<link::Segment> segment, int rank, Liveness* liveness, Options options);

  std::shared_ptr<link::Segment> segment_;
  Liveness* liveness_;
  Options options_;
  pid_t pid_;  // a forked child's copy of this endpoint must not speak for the rank
  int rank_;
  int world_;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<State> state_;
  std::unique_ptr<Gate> gate_;  // null: no rules are heeded
};

// What a rank called, in words: "AllReduce count=8 float32 sum".
std::string describe(const Operation& operation);

}  // namespace sabot::host
