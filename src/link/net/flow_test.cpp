// Messages over one connection: whole, in order, with every fault, and what the end of it says.
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.hpp"
#include "link/net/pair_fixture.hpp"

namespace sabot::link::net {
namespace {

using FlowTest = PairTest;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::byte& byte : data) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return data;
}

TEST_F(FlowTest, AMessageArrivesWholeAndItsLengthIsThatOfTheSender) {
  connect();
  std::vector<std::byte> sent = pattern(3'000'000, 1);
  std::vector<std::byte> buffer(4'000'000);
  Request* receiving = receiver_->post(buffer.data(), buffer.size());
  Request* sending = sender_->post(sent.data(), sent.size());
  std::uint64_t bytes = 0;
  bool is_sent = false, is_received = false;
  ASSERT_TRUE(eventually([&] {
    if (!is_sent) is_sent = is_done(*sender_, *sending);
    if (!is_received) is_received = is_done(*receiver_, *receiving, &bytes);
    return is_sent && is_received;
  }));
  EXPECT_EQ(bytes, sent.size());
  buffer.resize(bytes);
  EXPECT_TRUE(buffer == sent);
}

TEST_F(FlowTest, MessagesOfNoBytesAreMessages) {
  connect();
  Request* sent[3];
  Request* received[3];
  for (auto& request : sent) request = sender_->post(nullptr, 0);
  for (auto& request : received) request = receiver_->post(nullptr, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(eventually([&] { return is_done(*sender_, *sent[i]); }));
    std::uint64_t bytes = 99;
    EXPECT_TRUE(eventually([&] { return is_done(*receiver_, *received[i], &bytes); }));
    EXPECT_EQ(bytes, 0U);
  }
}

TEST_F(FlowTest, TenThousandMessagesOfRandomSizesKeepTheirOrderAndTheirBytes) {
  connect();
  constexpr std::uint64_t kMessages = 10'000;
  Random random(7);
  std::vector<std::size_t> sizes(kMessages);
  for (std::size_t& size : sizes) {
    // Most are small, some as large as the store and a little more, a few much larger.
    const std::uint64_t kind = random.below(100);
    size = random.below(kind < 80 ? 300 : kind < 98 ? 40'000 : 600'000);
  }
  struct Slot {
    std::vector<std::byte> bytes;
    Request* request = nullptr;
  };
  std::array<Slot, 8> outgoing, incoming;
  std::uint64_t sent = 0, posted = 0, checked = 0, acknowledged = 0;
  ASSERT_TRUE(eventually([&] {
    while (sent < kMessages && sent - acknowledged < outgoing.size()) {
      Slot& slot = outgoing[sent % outgoing.size()];
      slot.bytes = pattern(sizes[sent], sent);
      slot.request = sender_->post(slot.bytes.data(), slot.bytes.size());
      ++sent;
    }
    while (posted < kMessages && posted - checked < incoming.size()) {
      Slot& slot = incoming[posted % incoming.size()];
      slot.bytes.resize(600'000);
      slot.request = receiver_->post(slot.bytes.data(), slot.bytes.size());
      ++posted;
    }
    if (acknowledged < sent && is_done(*sender_, *outgoing[acknowledged % outgoing.size()].request))
      ++acknowledged;
    std::uint64_t bytes = 0;
    Slot& slot = incoming[checked % incoming.size()];
    if (checked < posted && is_done(*receiver_, *slot.request, &bytes)) {
      slot.bytes.resize(bytes);
      EXPECT_TRUE(slot.bytes == pattern(sizes[checked], checked)) << "message " << checked;
      ++checked;
    }
    return checked == kMessages || HasFailure();
  }));
  EXPECT_EQ(checked, kMessages);
}

TEST_F(FlowTest, AFullRingTakesNoMoreUntilARequestIsFoundDone) {
  connect();
  std::byte byte{1};
  Request* first = sender_->post(&byte, 1);
  for (std::size_t i = 1; i < kRequestsMax; ++i) ASSERT_NE(sender_->post(&byte, 1), nullptr);
  EXPECT_EQ(sender_->post(&byte, 1), nullptr);
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *first); }));
  EXPECT_NE(sender_->post(&byte, 1), nullptr);
}

TEST_F(FlowTest, AReaderThatDoesNotReadHoldsTheSenderBackAndLosesNothing) {
  connect();
  std::vector<std::byte> sent = pattern(32'000'000, 3);
  Request* sending = sender_->post(sent.data(), sent.size());
  for (int i = 0; i < 100; ++i)
    ASSERT_FALSE(is_done(*sender_, *sending)) << "the kernel holds no 32 MB";
  std::vector<std::byte> buffer(sent.size());
  Request* receiving = receiver_->post(buffer.data(), buffer.size());
  bool is_sent = false;
  ASSERT_TRUE(eventually([&] {
    if (!is_sent) is_sent = is_done(*sender_, *sending);
    return is_done(*receiver_, *receiving);
  }));
  EXPECT_TRUE(buffer == sent);
}

TEST_F(FlowTest, AMessageLargerThanItsBufferIsAnErrorOfUsage) {
  connect();
  std::vector<std::byte> sent(100), buffer(99);
  sender_->post(sent.data(), sent.size());
  Request* sending = sender_->post(sent.data(), sent.size());
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *sending); }));
  Request* receiving = receiver_->post(buffer.data(), buffer.size());
  Result<bool> done(false);
  ASSERT_TRUE(eventually([&] {
    done = receiver_->test(*receiving, nullptr);
    return !done.ok();
  }));
  EXPECT_EQ(done.error().code(), Code::kInvalidUsage);
  EXPECT_TRUE(contains(done.error().message(), "it has 100 bytes, the buffer has 99"));
}

TEST_F(FlowTest, APeerThatIsGoneIsARemoteErrorOnBothSidesAndStaysOne) {
  connect();
  std::byte byte{1};
  Request* receiving = receiver_->post(&byte, 1);
  sender_.reset();
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving),
                       "rank 1 receiving message 0 from rank 0 (127.0.0.1"));
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving), "the peer closed the connection"));
  Request* later = receiver_->post(&byte, 1);
  EXPECT_TRUE(contains(error_of(*receiver_, *later), "the peer closed the connection"));
}

TEST_F(FlowTest, WhatArrivedBeforeThePeerWentIsReceived) {
  connect();
  std::byte sent{1}, got[3]{};
  Request* sending = sender_->post(&sent, 1);
  Request* last_sending = sender_->post(&sent, 1);
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *last_sending); }));
  ASSERT_TRUE(is_done(*sender_, *sending));
  sender_.reset();
  Request* received[3];
  for (int i = 0; i < 3; ++i) received[i] = receiver_->post(&got[i], 1);
  EXPECT_TRUE(eventually([&] { return is_done(*receiver_, *received[0]); }));
  EXPECT_TRUE(is_done(*receiver_, *received[1]));
  EXPECT_TRUE(contains(error_of(*receiver_, *received[2]), "receiving message 2 from rank 0"));
}

TEST_F(FlowTest, WhatIsNoMessageIsRefused) {
  connect();
  const char nonsense[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(::send(sender_->descriptor(), nonsense, sizeof nonsense, 0),
            static_cast<ssize_t>(sizeof nonsense));
  std::byte byte{};
  Request* receiving = receiver_->post(&byte, 1);
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving), "not the head of a message"));
}

TEST_F(FlowTest, ACutIsARemoteErrorOnBothSidesThatNamesRankAndFault) {
  connect();
  std::byte byte{1};
  Request* receiving = receiver_->post(&byte, 1);
  ASSERT_FALSE(is_done(*receiver_, *receiving));
  rules0_.set(SABOT_LINK_CUT);
  Request* sending = sender_->post(&byte, 1);
  EXPECT_TRUE(contains(error_of(*sender_, *sending), "rank 0 sending message 0 to rank 1 (127."));
  EXPECT_TRUE(contains(error_of(*sender_, *sending), "was cut by the fault 'nic-dies'"));
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving), "from rank 0"));
}

TEST_F(FlowTest, ACutMetByOneConnectionEndsAllToThatPeer) {
  connect();
  const std::unique_ptr<Sender> first_sender = std::move(sender_);
  const std::unique_ptr<Receiver> first_receiver = std::move(receiver_);
  SetUp();
  connect();
  std::byte byte{1};
  Request* receiving = receiver_->post(&byte, 1);
  ASSERT_FALSE(is_done(*receiver_, *receiving));
  rules0_.set(SABOT_LINK_CUT);
  EXPECT_TRUE(contains(error_of(*first_sender, *first_sender->post(&byte, 1)), "was cut by"));
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving), "the peer closed the connection"))
      << "although nobody asks its sender";
}

TEST_F(FlowTest, ADroppedMessageCountsAsSentAndIsNeverTakenForAnother) {
  connect();
  std::byte lost{1}, next{2}, got{};
  rules0_.set(SABOT_LINK_DROP);
  Request* sending = sender_->post(&lost, 1);
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *sending); }));
  Request* receiving = receiver_->post(&got, 1);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(is_done(*receiver_, *receiving));
  rules0_.set(0);
  sender_->post(&next, 1);
  Request* last = sender_->post(&next, 1);
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *last); }));
  EXPECT_TRUE(contains(error_of(*receiver_, *receiving), "messages 0 to 0 were lost on the way"));
  EXPECT_EQ(got, std::byte{0});
}

TEST_F(FlowTest, APartitionHoldsBothDirectionsAndLosesNothing) {
  connect();
  std::vector<std::byte> sent = pattern(1000, 5), buffer(1000);
  rules0_.set(SABOT_LINK_PARTITION);
  Request* sending = sender_->post(sent.data(), sent.size());
  Request* receiving = receiver_->post(buffer.data(), buffer.size());
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(is_done(*sender_, *sending));
  rules0_.set(0);
  rules1_.set(SABOT_LINK_PARTITION);
  ASSERT_TRUE(eventually([&] { return is_done(*sender_, *sending); }));
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(is_done(*receiver_, *receiving));
  rules1_.set(0);
  ASSERT_TRUE(eventually([&] { return is_done(*receiver_, *receiving); }));
  EXPECT_TRUE(buffer == sent);
}

TEST_F(FlowTest, ADelayCountsFromThePostAndKeepsTheOrder) {
  connect();
  constexpr std::uint64_t kDelayNs = 30'000'000;
  rules0_.set(SABOT_LINK_DELAY, kDelayNs);
  std::byte one{1}, two{2}, got[2]{};
  Request* received[2] = {receiver_->post(&got[0], 1), receiver_->post(&got[1], 1)};
  const std::uint64_t begin = monotonic_ns();
  Request* sent[2] = {sender_->post(&one, 1), sender_->post(&two, 1)};
  for (Request* request : sent)
    ASSERT_TRUE(eventually([&] { return is_done(*sender_, *request); }));
  for (Request* request : received)
    ASSERT_TRUE(eventually([&] { return is_done(*receiver_, *request); }));
  EXPECT_GE(monotonic_ns() - begin, kDelayNs);
  EXPECT_EQ(got[0], one);
  EXPECT_EQ(got[1], two);
}

TEST_F(FlowTest, ADelayThatEndsReleasesWhatItHolds) {
  connect();
  rules0_.set(SABOT_LINK_DELAY, 3'600'000'000'000);
  std::byte byte{1};
  Request* sending = sender_->post(&byte, 1);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(is_done(*sender_, *sending));
  rules0_.set(0);
  EXPECT_TRUE(eventually([&] { return is_done(*sender_, *sending); }));
}

TEST_F(FlowTest, ARuleEndsAtItsLimitWithoutANewGeneration) {
  connect();
  rules0_.set(SABOT_LINK_PARTITION, 0, 0, monotonic_ns() + 20'000'000);
  std::byte byte{1};
  Request* sending = sender_->post(&byte, 1);
  ASSERT_FALSE(is_done(*sender_, *sending));
  EXPECT_TRUE(eventually([&] { return is_done(*sender_, *sending); }));
}

TEST_F(FlowTest, AThrottleLetsNoMoreThanItsRatePass) {
  connect();
  constexpr std::uint64_t kRate = 10'000'000;
  rules0_.set(SABOT_LINK_THROTTLE, 0, kRate);
  std::vector<std::byte> sent = pattern(1'000'000, 9), buffer(sent.size());
  const std::uint64_t begin = monotonic_ns();
  Request* sending = sender_->post(sent.data(), sent.size());
  Request* receiving = receiver_->post(buffer.data(), buffer.size());
  bool is_sent = false;
  ASSERT_TRUE(eventually([&] {
    if (!is_sent) is_sent = is_done(*sender_, *sending);
    return is_done(*receiver_, *receiving);
  }));
  // 100 ms at this rate; a portion of 5 ms is let go before it is paid for.
  EXPECT_GE(monotonic_ns() - begin, 94'000'000U);
  EXPECT_TRUE(buffer == sent);
}

TEST(Pace, ConnectionsOfOnePeerShareIt) {
  Pace pace;
  constexpr std::uint64_t kRate = 1000;
  EXPECT_EQ(pace.allowance(100, kRate, 1), 5U);
  pace.went(5, kRate, 1);
  EXPECT_EQ(pace.allowance(100, kRate, 2), 0U);
  EXPECT_EQ(pace.allowance(100, kRate, 5'000'001), 5U);
  EXPECT_EQ(pace.allowance(100, 1, 5'000'001), 1U) << "the slowest link still moves a byte";
}

}  // namespace
}  // namespace sabot::link::net
