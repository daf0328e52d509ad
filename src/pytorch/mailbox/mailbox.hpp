// Tagged point-to-point messages of a process group, as torch.distributed wants them: Messages,
// driven by whoever waits.
//
// A thread that waits for a message moves it itself, so that nothing is handed from thread to
// thread where only one is interested. Only while messages are open and nobody waits, one thread
// of the mailbox moves them; it starts with the first message that needs it and sleeps while there
// is nothing to do. All functions may be called from any thread, also from a `delivered`, which
// runs in whatever thread moved the message, the caller's own included, holds no lock and must not
// throw. Its communicator carries nothing but the mailbox. Needs no torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "pytorch/mailbox/messages.hpp"

namespace sabot::pytorch {

// Of the library of this process. Precondition: open_library() succeeded.
ByteChannels byte_channels();

class Mailbox {
 public:
  struct Address {
    int peer = 0;  // kAnySource: a receive takes from any rank
    int tag = 0;
    int type = 0;                   // the same on both sides
    std::uint64_t deadline_ns = 0;  // of now_ns(); 0: none
  };

  // The communicator is borrowed; it is not used any more once close() or abort() returned.
  Mailbox(ncclComm_t comm, int rank, int size, TypeName type_name = nullptr)
      : Mailbox(comm, rank, size, type_name, byte_channels()) {}
  Mailbox(ncclComm_t comm, int rank, int size, TypeName type_name, const ByteChannels& channels);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Starts one without waiting. `delivered` is called once, perhaps before this returns; until then
  // the memory must stay. A send ends when its bytes are on their way: about 1 MiB fits, more waits
  // for the receiver.
  void send(const Address& to, std::span<const std::byte> bytes, Delivered delivered);
  void recv(const Address& from, std::span<std::byte> bytes, Delivered delivered);
  // The same to the end.
  Delivery send_now(const Address& to, std::span<const std::byte> bytes);
  Delivery recv_now(const Address& from, std::span<std::byte> bytes);

  // Moves what can be moved now, for those who poll.
  void advance();
  // Moves messages in this thread until is_over(), which must be cheap; false: the deadline came
  // first.
  bool wait(const std::function<bool()>& is_over, std::uint64_t deadline_ns = 0);

  // Ends everything that is open, and what is started later, with this reason. When it returns no
  // memory of a message is touched any more. The first reason stands.
  void abort(const std::string& reason);
  // The regular end. Messages that are still open are aborted.
  void close();

  // The clock of deadlines: std::chrono::steady_clock, in nanoseconds.
  static std::uint64_t now_ns();
  static std::uint64_t deadline_after(std::chrono::milliseconds timeout);

 private:
  struct Shared;
  void start(std::unique_ptr<Message> message);
  Delivery run(std::unique_ptr<Message> message);
  bool is_of_this_process() const;

  std::shared_ptr<Shared> shared_;
  unsigned fork_count_;  // a forked child has neither the communicator nor the thread
};

}  // namespace sabot::pytorch
