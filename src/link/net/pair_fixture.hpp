// Both ends of a connection in one thread, and rules given by hand, for tests.
//
// Rank 0 dials rank 1; the two take turns, so that a test sees every state in between. What needs
// two processes is tested in tests/net.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "link/net/dialer.hpp"
#include "link/net/listener.hpp"

namespace sabot::link::net {

// The same rule for every peer.
class HandRules final : public RuleSource {
 public:
  void set(std::uint32_t effects, std::uint64_t delay_ns = 0, std::uint64_t rate = 0,
           std::uint64_t until_ns = 0) {
    rule_ = {};
    rule_.size = sizeof rule_;
    rule_.effects = effects;
    rule_.delay_ns = delay_ns;
    rule_.rate_bytes_per_s = rate;
    rule_.until_ns = until_ns;
    std::strcpy(rule_.fault, "nic-dies");
    ++generation_;
  }
  std::uint64_t generation() const override { return generation_; }
  sabot_link_rule_t rule_for(int) const override {
    const bool is_over = rule_.until_ns != 0 && monotonic_ns() >= rule_.until_ns;
    return is_over ? sabot_link_rule_t{} : rule_;
  }

 private:
  sabot_link_rule_t rule_{};
  std::uint64_t generation_ = 1;
};

inline Address loopback() {
  Address address;
  address.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
  return address;
}

inline std::array<std::byte, kHandleBytes> bytes_of(const Handle& handle) {
  std::array<std::byte, kHandleBytes> bytes;
  write_handle(handle, bytes);
  return bytes;
}

// Asks again until the answer is there or a minute is over, which only bounds hangs.
template <typename Ask>
bool eventually(Ask ask) {
  const std::uint64_t deadline = monotonic_ns() + 60'000'000'000;
  while (monotonic_ns() < deadline)
    if (ask()) return true;
  return false;
}

// Rank 1 listens, rank 0 connects and sends.
class PairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Listener::open(endpoint1_, loopback());
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    listener_ = std::move(opened).value();
    handle_ = bytes_of(listener_->handle());
  }

  // Both sides take turns until both have their end, or one has an error.
  void connect() {
    ASSERT_TRUE(eventually([&] {
      if (sender_ == nullptr) {
        auto made = dialer_.connect(&handle_, handle_);
        if (!made.ok()) return fail_connect(made.error());
        sender_ = std::move(made).value();
      }
      if (receiver_ == nullptr) {
        auto made = listener_->accept();
        if (!made.ok()) return fail_connect(made.error());
        receiver_ = std::move(made).value();
      }
      return sender_ != nullptr && receiver_ != nullptr;
    }));
    ASSERT_EQ(connect_error_, "");
  }

  // The first error of a flow that is tested until it has one.
  std::string error_of(Flow& flow, Request& request) {
    std::string text;
    EXPECT_TRUE(eventually([&] {
      const Result<bool> done = flow.test(request, nullptr);
      if (done.ok()) return *done;
      text = done.error().message();
      EXPECT_EQ(done.error().code(), Code::kRemote) << text;
      return true;
    }));
    return text;
  }
  bool is_done(Flow& flow, Request& request, std::uint64_t* bytes = nullptr) {
    const Result<bool> done = flow.test(request, bytes);
    EXPECT_TRUE(done.ok()) << done.error().message();
    return done.ok() && *done;
  }

  HandRules rules0_, rules1_;
  Endpoint endpoint0_{{0, 100}, rules0_};
  Endpoint endpoint1_{{1, 101}, rules1_};
  Dialer dialer_{endpoint0_, {.connect_ns = 1'000'000'000, .retry_ns = 1'000'000}};
  std::unique_ptr<Listener> listener_;
  std::array<std::byte, kHandleBytes> handle_{};
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
  std::string connect_error_;

 private:
  bool fail_connect(const Error& error) {
    connect_error_ = error.message();
    return true;
  }
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sabot::link::net
