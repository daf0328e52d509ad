// Sends the messages of a connection, one after the other, several in one system call.
#pragma once

#include "link/net/flow.hpp"

namespace sabot::link::net {

class Sender final : public Flow {
 public:
  explicit Sender(Connection connection) : Flow(std::move(connection)) {}

 protected:
  Status progress(const sabot_link_rule_t& rule) override;
  std::string doing() const override;

 private:
  struct Batch;
  void gather(const sabot_link_rule_t& rule, Batch& batch);
  bool may_leave(const sabot_link_rule_t& rule, Request& request);
  void went(std::uint64_t bytes);

  Head& head_of(std::uint64_t place) { return heads_[place % kRequestsMax]; }

  std::array<Head, kRequestsMax> heads_{};
  std::uint64_t offset_ = 0;  // bytes of the first request that are out, head included
};

}  // namespace sabot::link::net
