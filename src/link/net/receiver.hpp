// Receives the messages of a connection, each into the buffer that was posted for it.
//
// Small messages come in through a little store of bytes read ahead, many with one system call;
// what is left of a large one is read straight into its buffer. Nothing is read while no buffer is
// posted, so that a peer that sends more than is asked for is held back by the kernel.
#pragma once

#include "link/net/flow.hpp"

namespace sabot::link::net {

class Receiver final : public Flow {
 public:
  explicit Receiver(Connection connection) : Flow(std::move(connection)) {}

 protected:
  Status progress(const sabot_link_rule_t& rule) override;
  std::string doing() const override;

 private:
  static constexpr std::size_t kStoreBytes = 32 * 1024;
  // Beside a large message only its successor's head is worth reading ahead: what else comes along
  // would be copied once more.
  static constexpr std::size_t kAheadBytes = kHeadBytes;

  Status take_from_store();
  Status begin_message();
  Result<std::size_t> read_more();

  std::array<std::byte, kStoreBytes> store_;
  std::size_t store_begin_ = 0;
  std::size_t store_end_ = 0;
  bool has_head_ = false;
  std::uint64_t message_bytes_ = 0;  // of the message at begun_, once its head is here
  std::uint64_t got_bytes_ = 0;
};

}  // namespace sabot::link::net
