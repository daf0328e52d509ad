// Link faults on this engine: what each rank sees of every one of them.
#include "engine/host/gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "engine/host/ranks_fixture.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {
namespace {

// Rules by hand, for the peers of one rank.
struct HandRules {
  std::atomic<std::uint64_t> generation{1};
  std::atomic<std::uint32_t> effects{0};
  std::atomic<std::uint64_t> peers{~0ULL}, delay_ns{0}, rate{0};

  void set(std::uint32_t wanted, std::uint64_t delay = 0, std::uint64_t bytes_per_s = 0) {
    delay_ns = delay;
    rate = bytes_per_s;
    effects = wanted;
    ++generation;
  }
};

class Source final : public link::net::RuleSource {
 public:
  explicit Source(const HandRules& rules) : rules_(rules) {}
  std::uint64_t generation() const override { return rules_.generation; }
  sabot_link_rule_t rule_for(int peer) const override {
    sabot_link_rule_t rule{};
    if ((rules_.peers >> peer & 1) == 0) return rule;
    rule.effects = rules_.effects;
    rule.delay_ns = rules_.delay_ns;
    rule.rate_bytes_per_s = rules_.rate;
    std::strcpy(rule.fault, "nic-dies");
    return rule;
  }

 private:
  const HandRules& rules_;
};

// Three ranks; the rules are those of rank 1.
class GateTest : public ::testing::Test {
 protected:
  GateTest() { ranks_[1].heed(std::make_unique<Source>(rules_)); }

  Operation all_reduce(int rank, std::uint64_t count) {
    Operation operation;
    operation.count = count;
    operation.input = in_.data();
    operation.output = out_[static_cast<std::size_t>(rank)].data();
    return operation;
  }
  // All ranks reduce so many ones; what each was told, "" for a right result.
  std::vector<std::string> reduce(std::uint64_t count) {
    std::vector<std::string> texts(3);
    ranks_.each([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      out_[r].assign(out_[r].size(), 0.0F);
      const Status ran = ranks_[rank].run(all_reduce(rank, count));
      if (!ran.ok())
        texts[r] =
            (ran.error().code() == Code::kRemote ? "" : "not remote: ") + ran.error().message();
      else if (out_[r][0] != 3.0F || out_[r][count - 1] != 3.0F)
        texts[r] = "wrong";
    });
    return texts;
  }
  static std::vector<std::string> all(const std::string& text) {
    return std::vector<std::string>(3, text);
  }
  // Both sides of a message from rank 1 to rank 0, as tasks of this thread.
  void start(Task& sends, Task& receives, std::uint64_t count) {
    Operation operation;
    operation.kind = Operation::Kind::kSend;
    operation.count = count;
    operation.input = in_.data();
    operation.peer = 0;
    ASSERT_TRUE(ranks_[1].start(sends, operation).ok());
    operation.kind = Operation::Kind::kRecv;
    operation.output = out_[0].data();
    operation.peer = 1;
    ASSERT_TRUE(ranks_[0].start(receives, operation).ok());
  }
  static bool eventually_done(Task& task) {
    for (int i = 0; i < 2'000'000; ++i)
      if (task.advance() == Progress::kDone) return true;
    return false;
  }
  static bool stays_blocked(Task& task) {
    for (int i = 0; i < 1000; ++i)
      if (task.advance() != Progress::kBlocked) return false;
    return true;
  }

  HandRules rules_;
  Ranks ranks_{3};
  std::vector<float> in_ = std::vector<float>(1 << 18, 1.0F);
  std::vector<std::vector<float>> out_{3, std::vector<float>(1 << 18)};
};

TEST_F(GateTest, WithoutRulesItIsIdleAndNothingChanges) {
  EXPECT_EQ(reduce(4), all(""));
  EXPECT_EQ(reduce(1 << 18), all(""));
  rules_.set(SABOT_LINK_CUT);
  rules_.set(0);
  EXPECT_EQ(reduce(4), all(""));
}

TEST_F(GateTest, ACutFailsAllRanksWithATextThatNamesBothAndTheFault) {
  rules_.peers = 0b001;
  rules_.set(SABOT_LINK_CUT);
  const std::string text = "the link between rank 1 and rank 0 was cut by the fault 'nic-dies'";
  EXPECT_EQ(reduce(4), all(text));
  rules_.set(0);
  EXPECT_EQ(reduce(1 << 18), all(text)) << "a failed communicator stays failed";
}

TEST_F(GateTest, ACutOfALargeReductionFailsIt) {
  ASSERT_EQ(reduce(1 << 18), all(""));
  rules_.set(SABOT_LINK_CUT);
  for (const std::string& text : reduce(1 << 18))
    EXPECT_NE(text.find("was cut by the fault 'nic-dies'"), std::string::npos) << text;
}

TEST_F(GateTest, ADelayIsWaitedForAndTheResultIsRight) {
  rules_.set(SABOT_LINK_DELAY, 30'000'000);
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(reduce(4), all(""));
  EXPECT_GE(now_ns() - begin, 30'000'000U);
}

TEST_F(GateTest, AThrottleLetsNoMoreThanItsRatePass) {
  rules_.set(SABOT_LINK_THROTTLE, 0, 20'000'000);
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(reduce(1 << 18), all(""));
  // Rank 1 puts at least a third of 1 MiB, all but its last message paid for.
  EXPECT_GE(now_ns() - begin, 5'000'000U);
}

TEST_F(GateTest, APartitionHoldsMessagesUntilItEnds) {
  rules_.set(SABOT_LINK_PARTITION);
  Task sends, receives;
  start(sends, receives, 1 << 16);
  EXPECT_TRUE(stays_blocked(sends));
  EXPECT_TRUE(stays_blocked(receives));
  rules_.set(0);
  ASSERT_EQ(sends.advance(), Progress::kDone);
  EXPECT_TRUE(eventually_done(receives));
  EXPECT_EQ(out_[0][(1 << 16) - 1], 1.0F);
}

TEST_F(GateTest, APartitionLetsNothingInEither) {
  Operation operation;
  operation.kind = Operation::Kind::kSend;
  operation.count = 4;
  operation.input = in_.data();
  operation.peer = 1;
  ASSERT_TRUE(ranks_[0].run(operation).ok());
  rules_.set(SABOT_LINK_PARTITION);
  Task receives;
  operation.kind = Operation::Kind::kRecv;
  operation.output = out_[1].data();
  operation.peer = 0;
  ASSERT_TRUE(ranks_[1].start(receives, operation).ok());
  EXPECT_TRUE(stays_blocked(receives));
  rules_.set(0);
  EXPECT_TRUE(eventually_done(receives));
}

TEST_F(GateTest, AnAbortEndsWhatAPartitionHolds) {
  rules_.set(SABOT_LINK_PARTITION);
  Task sends, receives;
  start(sends, receives, 4);
  ASSERT_TRUE(stays_blocked(sends));
  ranks_[1].abort();
  EXPECT_EQ(sends.advance(), Progress::kFailed);
  EXPECT_EQ(sends.status().error().code(), Code::kAborted);
  ranks_[0].abort();
  EXPECT_EQ(receives.advance(), Progress::kFailed);
}

TEST_F(GateTest, ADroppedMessageCountsAsSentAndItsSuccessorIsNotTakenForIt) {
  rules_.set(SABOT_LINK_DROP);
  Task lost, receives;
  start(lost, receives, 4);
  EXPECT_EQ(lost.advance(), Progress::kDone);
  EXPECT_TRUE(stays_blocked(receives));
  rules_.set(0);
  Operation operation;
  operation.kind = Operation::Kind::kSend;
  operation.count = 4;
  operation.input = in_.data();
  operation.peer = 0;
  ASSERT_TRUE(ranks_[1].run(operation).ok());
  EXPECT_TRUE(stays_blocked(receives));
  ranks_[0].abort();
  EXPECT_EQ(receives.advance(), Progress::kFailed);
}

TEST_F(GateTest, ADropInACollectiveLeavesTheOthersWaiting) {
  rules_.set(SABOT_LINK_DROP);
  Task tasks[3];
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(ranks_[rank].start(tasks[rank], all_reduce(rank, 4)).ok());
  for (int turn = 0; turn < 1000; ++turn)
    for (Task& task : tasks) task.advance();
  EXPECT_EQ(tasks[1].advance(), Progress::kDone) << "it lacks nothing";
  EXPECT_TRUE(stays_blocked(tasks[0]));
  EXPECT_TRUE(stays_blocked(tasks[2]));
  for (int rank = 0; rank < 3; ++rank) ranks_[rank].abort();
  EXPECT_EQ(tasks[0].advance(), Progress::kFailed);
}

TEST_F(GateTest, BytesOfAChannelHeedTheRulesToo) {
  const std::byte bytes[4] = {};
  std::byte got[4];
  rules_.set(SABOT_LINK_PARTITION);
  Result<std::size_t> put = ranks_[1].put_bytes(0, bytes);
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(*put, 0U);
  rules_.set(0);
  put = ranks_[1].put_bytes(0, bytes);
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(*put, 4U);
  const Result<std::size_t> taken = ranks_[0].take_bytes(1, got);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(*taken, 4U);
  rules_.set(SABOT_LINK_CUT);
  const Result<std::size_t> cut = ranks_[1].put_bytes(0, bytes);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code(), Code::kRemote);
}

}  // namespace
}  // namespace sabot::host
