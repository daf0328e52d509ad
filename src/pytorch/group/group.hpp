// One rank's end of a process group: its communicators, its stream, what is under way, and why it
// broke.
//
// The torch object that Python holds may die while operations are queued; they share this one. Two
// communicators of the host engine belong to it: one through the layers, for collectives, and one
// beneath them, whose byte channels carry the mailbox. All members are thread-safe unless stated.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pytorch/errors.hpp"
#include "pytorch/group/work.hpp"
#include "pytorch/mailbox/mailbox.hpp"

namespace sabot::pytorch {

struct Member {
  int rank = 0;
  int size = 1;
  std::string group;  // torch's name of it
  std::vector<std::int64_t> global_ranks;
  std::chrono::milliseconds timeout{0};
  std::string session;  // this life of the group, where the store remembers earlier ones

  int global_rank() const {
    const auto index = static_cast<std::size_t>(rank);
    return index < global_ranks.size() ? static_cast<int>(global_ranks[index]) : rank;
  }
};

// An operation as an error and a row of the recorder describe it.
struct Request {
  ::c10d::OpType type;
  const char* title;  // "sabot:all_reduce"
  std::chrono::milliseconds timeout;
  bool is_async = true;
  c10::ArrayRef<at::Tensor> inputs;
  c10::ArrayRef<at::Tensor> outputs;
  Style style = Style::kBackendError;
  Place place = here();
  int peer = -1;  // of a message; -1: any source
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  // Takes the communicators, and is watched from now on.
  static std::shared_ptr<Group> make(Member member, ncclComm_t comm, ncclComm_t beneath);
  ~Group();

  const Member& member() const { return member_; }
  ncclComm_t comm() const { return comm_; }
  ncclComm_t comm_beneath() const { return beneath_; }
  Mailbox& mailbox() { return *mailbox_; }
  // The thread of asynchronous operations; made by the first. Throws if it cannot be.
  cudaStream_t stream();
  // Held while an asynchronous operation and its completion are put into the stream.
  std::mutex& issue_mutex() { return issue_mutex_; }

  void set_timeout(std::chrono::milliseconds timeout) { timeout_ms_.store(timeout.count()); }
  // The one given, or the group's where none was.
  std::chrono::milliseconds timeout_or(std::chrono::milliseconds given) const {
    return given.count() > 0 ? given : std::chrono::milliseconds(timeout_ms_.load());
  }

  std::uint64_t next_collective() { return ++collectives_; }
  std::uint64_t collectives() const { return collectives_.load(); }
  std::uint64_t next_p2p() { return ++messages_; }

  // An operation begins, ends.
  void begin(Flight& flight, const Request& request, bool is_p2p);
  void end(Flight& flight, bool succeeded);

  // Throws if the group was aborted.
  void check_usable() const;
  // What a failed operation throws: why the group broke where that is why, else NCCL's words.
  std::exception_ptr explain(ncclResult_t code, const std::string& last_error, const Flight& flight,
                             Style style, Place place) const;

  // What an operation throws that took too long: the same, or this text.
  std::exception_ptr failure_of(const std::string& text) const;
  // Writes torch's flight recorder file.
  void write_recorder();
  // The same, once, if the communicator has failed: before anybody is told, who might then exit.
  void record_failure();

  // Ends everything under way, now.
  void abort(const std::string& reason);
  // The regular end; aborts if operations are under way. Throws what NCCL says of the destruction.
  void close();
  bool is_closed() const { return is_closed_.load(); }
  bool is_aborted() const { return is_aborted_.load(); }

  // For the watchdog, about every 100 ms.
  void inspect(Clock::time_point now);

 private:
  Group(Member member, ncclComm_t comm, ncclComm_t beneath);
  std::string why_closed() const;
  std::string laggards(int& culprit) const;
  void note_overdue(const Flight& flight, Clock::time_point now);
  void release_stream();

  Member member_;
  ncclComm_t comm_;
  ncclComm_t beneath_;
  std::unique_ptr<Mailbox> mailbox_;
  int recorded_as_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_aborted_{false};
  std::atomic<bool> is_recorded_{false};  // a failure of the communicator, in a file
  Flights flights_;
  std::mutex issue_mutex_;
  std::mutex stream_mutex_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex failure_mutex_;
  std::string abort_reason_;
  std::string timeout_text_;
  pid_t pid_;
};

}  // namespace sabot::pytorch
