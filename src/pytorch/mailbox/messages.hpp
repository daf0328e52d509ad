// Tagged messages between ranks over byte channels: a state machine that never blocks and knows no
// threads and no clock; Mailbox adds both.
//
// On the wire a message is a header (tag, type, size) and its bytes, in the order of posting. A
// receive takes the first message with its tag from its rank, or from any rank; of the receives
// that a message suits, the one that was posted first gets it. A rank's channel is read only while
// a receive may want something from it, and only what stands before a wanted message is kept in
// memory. Needs no torch.
#pragma once

#include <nccl.h>
#include <sabot/exchange.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace sabot::pytorch {

inline constexpr int kAnySource = -1;

// What messages are made of: the host engine's functions, or a test's.
struct ByteChannels {
  decltype(&::sabot_channel_put) put = nullptr;
  decltype(&::sabot_channel_take) take = nullptr;
  decltype(&::sabot_wait_begin) wait_begin = nullptr;
  decltype(&::sabot_wait_pause) wait_pause = nullptr;
  decltype(&::sabot_wait_end) wait_end = nullptr;
  decltype(&::ncclCommGetAsyncError) async_error = nullptr;
  decltype(&::ncclGetLastError) last_error = nullptr;
};

// The caller's word for a type, for texts.
using TypeName = const char* (*)(int type);

// How a message ended.
struct Delivery {
  enum class Kind : std::uint8_t {
    kDone,
    kMismatch,  // what came has another size or type: the receiver's error, which ends nothing else
    kTimeout,
    kFailed,  // the communicator failed, or this peer has left
  };
  Kind kind = Kind::kDone;
  ncclResult_t code = ncclSuccess;
  std::string text;  // empty if done
  int source = -1;   // of a receive, where a message has been matched: the rank that sent it
};
using Delivered = std::function<void(const Delivery&)>;

// One send or receive. The memory at data must stay until it ends; a send only reads it.
struct Message {
  bool sends = false;
  int peer = 0;  // kAnySource: a receive takes from any rank, also this one
  int tag = 0;
  int type = 0;  // must be equal on both sides
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t deadline_ns = 0;  // 0: none
  Delivered delivered;            // empty: nobody is told

  // Private to Messages.
  std::uint64_t number = 0;  // order of posting
  std::uint64_t started_ns = 0;
  bool has_header_left = true;  // of a send
  std::size_t moved = 0;
  std::unique_ptr<std::byte[]> kept;  // the rest of a send whose buffer is gone

  std::string describe() const;  // "sending 8 bytes with tag 3 to rank 1"
};

class Messages {
 public:
  struct Ended {
    std::unique_ptr<Message> message;
    Delivery delivery;
  };

  Messages(const ByteChannels& channels, ncclComm_t comm, int rank, int size, TypeName type_name);

  // Queues it; it may end at once. Precondition: peer is a rank, or kAnySource for a receive.
  void start(std::unique_ptr<Message> message, std::uint64_t now_ns);
  // Moves what can be moved now, a bounded amount, and ends what is overdue. Whether bytes moved.
  bool advance(std::uint64_t now_ns);
  // Ends all, and everything that will be started, with this text. The first failure stands.
  void fail_all(ncclResult_t code, const std::string& text);

  // What has ended since the last call, in order; the caller tells those who want to know.
  std::vector<Ended> take_ended();
  // Nothing to advance: no message is open, none has to be cleared away.
  bool is_idle() const { return open_ == 0 && discards_ == 0; }
  // Of messages that nobody has asked for yet.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  struct Header {
    std::int32_t tag;
    std::int32_t type;
    std::uint64_t bytes;
  };
  static constexpr std::size_t kHeaderBytes = sizeof(Header);

  // A message that arrived before a receive asked for it.
  struct Held {
    Header header{};
    std::uint64_t arrival = 0;  // order of arrival over all sources
    std::unique_ptr<std::byte[]> data;
  };

  // The message that is being read from a source. Goes to a receive, or is held, or is discarded.
  struct Incoming {
    std::array<std::byte, kHeaderBytes> raw{};
    std::size_t raw_bytes = 0;
    Header header{};
    std::size_t moved = 0;
    std::unique_ptr<Message> receive;
    bool is_held = false;  // the newest of held
    bool is_discarded = false;
    bool is_open() const { return receive != nullptr || is_held || is_discarded; }
  };

  struct Loss {
    bool is_lost = false;
    ncclResult_t code = ncclSuccess;
    std::string why;
  };

  struct Peer {
    std::deque<std::unique_ptr<Message>> sends;
    std::list<std::unique_ptr<Message>> receives;
    Incoming incoming;
    std::list<Held> held;
    // What it sent before it left still counts, so its two directions end at different times.
    Loss of_sends;
    Loss of_receives;
  };
  using Receives = std::list<std::unique_ptr<Message>>;

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void end(std::unique_ptr<Message> message, Delivery delivery);
  void end_failed(std::unique_ptr<Message> message, ncclResult_t code, const std::string& text);
  bool is_alone() const;
  void end_alone(std::unique_ptr<Message> message);
  void end_timed_out(std::unique_ptr<Message> message, std::uint64_t now_ns);
  // Remembers its deadline if it is still to come.
  bool is_late(const Message& message, std::uint64_t now_ns);

  void start_receive(std::unique_ptr<Message> message);
  bool find_held(const Message& receive, int& source, std::list<Held>::iterator& found);
  void take_held(std::unique_ptr<Message> receive, int source, std::list<Held>::iterator held);
  bool suits(const Header& header, const Message& receive) const;
  std::string mismatch(const Header& header, const Message& receive, int source) const;

  bool advance_sends(int rank);
  std::size_t put_first(int rank, const Message& message);
  bool advance_receives(int source);
  bool reads_from(int source);
  std::size_t read(int source);
  void begin_incoming(int source);
  std::unique_ptr<Message> take_matching(int source, int tag);
  void hold(int source);
  void discard(Peer& from);
  void end_incoming(int source);

  std::size_t put(int rank, const void* data, std::size_t bytes);
  std::size_t take(int source, void* data, std::size_t bytes);
  // Why a channel refused; false if the communicator has failed and all has been ended.
  bool explain(ncclResult_t code, std::string& text);
  void lose_sends(int rank, ncclResult_t code, const std::string& text);
  void lose_receives(int rank, ncclResult_t code, const std::string& text);

  void expire(std::uint64_t now_ns);
  void expire_sends(Peer& to, std::uint64_t now_ns);
  void expire_receives(Receives& receives, std::uint64_t now_ns);

  ByteChannels channels_;
  ncclComm_t comm_;
  int rank_;
  int size_;
  TypeName type_name_;
  std::vector<Peer> peers_;
  Receives from_any_;
  std::vector<Ended> ended_;
  std::size_t open_ = 0;  // messages that have not ended, kept rests included
  std::size_t discards_ = 0;
  std::size_t held_bytes_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t next_deadline_ns_;
  int first_source_ = 0;  // where the next round begins, so that any-source receives are fair
  std::vector<std::byte> waste_;
  bool is_broken_ = false;
  ncclResult_t broken_code_ = ncclSuccess;
  std::string broken_text_;
};

}  // namespace sabot::pytorch
