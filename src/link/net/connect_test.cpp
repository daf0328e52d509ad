// How two processes find each other: strangers, late listeners, forged bytes, faults meanwhile.
#include <sys/socket.h>

#include "base/random.hpp"
#include "link/net/pair_fixture.hpp"

namespace sabot::link::net {
namespace {

using ConnectTest = PairTest;

Fd stranger_at(const Listener& listener) {
  Result<Fd> fd = begin_to_connect(listener.handle().address);
  EXPECT_TRUE(fd.ok()) << fd.error().message();
  EXPECT_TRUE(eventually([&] { return connection_error(fd->get()) == 0; }));
  return std::move(fd).value();
}

TEST_F(ConnectTest, BothEndsKnowTheRankOfTheOther) {
  connect();
  EXPECT_EQ(sender_->peer().identity.world_rank, 1);
  EXPECT_EQ(receiver_->peer().identity.world_rank, 0);
  EXPECT_EQ(receiver_->peer().identity.process, 100);
  EXPECT_EQ(dialer_.attempt_count(), 0U);
}

TEST_F(ConnectTest, NobodyThereIsNotYetAConnectionAndNoError) {
  auto accepted = listener_->accept();
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(*accepted, nullptr);
}

TEST_F(ConnectTest, SilentStrangersHoldNobodyUp) {
  std::vector<Fd> strangers;
  for (std::size_t i = 0; i < 2 * Listener::kStrangersMax; ++i) {
    strangers.push_back(stranger_at(*listener_));
    ASSERT_TRUE(listener_->accept().ok());
  }
  connect();
}

TEST_F(ConnectTest, AStrangerThatSpeaksAnotherProtocolIsSentAway) {
  const Fd stranger = stranger_at(*listener_);
  const std::string request(200, 'x');
  ASSERT_EQ(::send(stranger.get(), request.data(), request.size(), MSG_NOSIGNAL), 200);
  connect();
  char byte;
  EXPECT_TRUE(eventually([&] {
    return ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) != -1 ||
           (errno != EAGAIN && errno != EINTR);
  }));
}

TEST_F(ConnectTest, AGreetingForAnotherListenerIsSentAway) {
  const Fd stranger = stranger_at(*listener_);
  const auto greeting = write_greeting({{5, 5}, listener_->handle().nonce + 1, false});
  ASSERT_EQ(::send(stranger.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  connect();
  EXPECT_EQ(receiver_->peer().identity.world_rank, 0);
}

TEST_F(ConnectTest, AGreetingInPiecesIsOneGreeting) {
  const Fd slow = stranger_at(*listener_);
  const auto greeting = write_greeting({{7, 7}, listener_->handle().nonce, false});
  for (std::size_t i = 0; i < greeting.size(); ++i) {
    auto accepted = listener_->accept();
    ASSERT_TRUE(accepted.ok());
    ASSERT_EQ(*accepted, nullptr);
    ASSERT_EQ(::send(slow.get(), &greeting[i], 1, MSG_NOSIGNAL), 1);
  }
  ASSERT_TRUE(eventually([&] {
    auto accepted = listener_->accept();
    if (accepted.ok() && *accepted != nullptr) receiver_ = std::move(accepted).value();
    return receiver_ != nullptr;
  }));
  EXPECT_EQ(receiver_->peer().identity.world_rank, 7);
}

TEST_F(ConnectTest, ASenderWaitsForAListenerThatComesLateButNotForEver) {
  listener_.reset();
  const auto first = dialer_.connect(&handle_, handle_);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ(*first, nullptr);
  std::string text;
  ASSERT_TRUE(eventually([&] {
    const auto made = dialer_.connect(&handle_, handle_);
    if (made.ok()) return false;
    EXPECT_EQ(made.error().code(), Code::kRemote);
    EXPECT_EQ(made.error().peer(), 1);
    text = made.error().message();
    return true;
  }));
  EXPECT_TRUE(contains(text, "connecting to rank 1 (127.0.0.1:"));
  EXPECT_EQ(dialer_.attempt_count(), 0U);
}

TEST_F(ConnectTest, ForgedHandlesAreRefusedAndReachNothing) {
  Random random(11);
  for (int round = 0; round < 20'000; ++round) {
    auto forged = handle_;
    const std::uint64_t changes = 1 + random.below(4);
    for (std::uint64_t i = 0; i < changes; ++i)
      forged[random.below(56)] ^= static_cast<std::byte>(1 + random.below(255));
    const auto handle = read_handle(forged);
    if (handle.ok())
      EXPECT_EQ(forged, handle_);
    else
      EXPECT_EQ(handle.error().code(), Code::kInvalidArgument);
  }
  const std::array<std::byte, kHandleBytes> empty{};
  EXPECT_FALSE(dialer_.connect(&empty, empty).ok());
  EXPECT_EQ(dialer_.attempt_count(), 0U);
}

TEST_F(ConnectTest, ForgedGreetingsAreRefused) {
  const auto greeting = write_greeting({{3, 4}, 5, false});
  Random random(13);
  for (int round = 0; round < 20'000; ++round) {
    auto forged = greeting;
    forged[random.below(forged.size())] ^= static_cast<std::byte>(1 + random.below(255));
    EXPECT_FALSE(read_greeting(forged).ok());
  }
  EXPECT_TRUE(read_greeting(greeting).ok());
}

TEST_F(ConnectTest, ACutMetWhileConnectingIsToldToBothSides) {
  rules0_.set(SABOT_LINK_CUT);
  std::string sending, accepting;
  ASSERT_TRUE(eventually([&] {
    if (sending.empty()) {
      auto made = dialer_.connect(&handle_, handle_);
      if (!made.ok()) sending = made.error().message();
    }
    if (accepting.empty()) {
      auto made = listener_->accept();
      if (!made.ok()) accepting = made.error().message();
    }
    return !sending.empty() && !accepting.empty();
  }));
  EXPECT_TRUE(contains(sending, "connecting to rank 1"));
  EXPECT_TRUE(contains(sending, "cut by the fault 'nic-dies'"));
  EXPECT_TRUE(contains(accepting, "accepting rank 0"));
  EXPECT_TRUE(contains(accepting, "has cut the link"));
}

TEST_F(ConnectTest, AListenerWithACutRefusesWithTheFaultsName) {
  rules1_.set(SABOT_LINK_CUT);
  std::string text;
  ASSERT_TRUE(eventually([&] {
    if (sender_ == nullptr) {
      auto connected = dialer_.connect(&handle_, handle_);
      if (connected.ok()) sender_ = std::move(connected).value();
    }
    const auto made = listener_->accept();
    if (!made.ok()) text = made.error().message();
    return !made.ok();
  }));
  EXPECT_TRUE(contains(text, "cut by the fault 'nic-dies'"));
  std::byte byte{};
  ASSERT_TRUE(eventually([&] {
    Request* request = sender_->post(&byte, 1);
    return request == nullptr || !sender_->test(*request, nullptr).ok();
  }));
}

TEST_F(ConnectTest, APartitionHoldsAConnectionUpUntilItEnds) {
  rules0_.set(SABOT_LINK_PARTITION);
  for (int i = 0; i < 50; ++i) {
    auto made = dialer_.connect(&handle_, handle_);
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(*made, nullptr);
  }
  rules0_.set(0);
  connect();
}

TEST_F(ConnectTest, AttemptsThatNobodyAsksAboutAreForgotten) {
  Dialer impatient(endpoint0_, {.connect_ns = 1'000'000'000, .forgotten_ns = 1'000'000});
  rules0_.set(SABOT_LINK_PARTITION);
  ASSERT_TRUE(impatient.connect(&handle_, handle_).ok());
  EXPECT_EQ(impatient.attempt_count(), 1U);
  auto other = Listener::open(endpoint1_, loopback());
  ASSERT_TRUE(other.ok());
  const auto handle = bytes_of((*other)->handle());
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(impatient.connect(&handle, handle).ok());
    return impatient.attempt_count() == 1;
  }));
}

TEST_F(ConnectTest, TheSameMemoryWithANewHandleIsANewAttempt) {
  rules0_.set(SABOT_LINK_PARTITION);
  ASSERT_TRUE(dialer_.connect(&handle_, handle_).ok());
  auto other = Listener::open(endpoint1_, loopback());
  ASSERT_TRUE(other.ok());
  listener_ = std::move(other).value();
  handle_ = bytes_of(listener_->handle());
  rules0_.set(0);
  connect();
}

}  // namespace
}  // namespace sabot::link::net
