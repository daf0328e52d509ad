// Send and receive: any size, in order per pair, in groups driven by one thread, to oneself.
#include <gtest/gtest.h>

#include "engine/host/ranks_fixture.hpp"

namespace sabot::host {
namespace {

Operation send(int peer, const void* from, std::uint64_t count, DataType type = DataType::kInt32) {
  Operation operation;
  operation.kind = Operation::Kind::kSend;
  operation.peer = peer;
  operation.input = from;
  operation.count = count;
  operation.type = type;
  return operation;
}

Operation recv(int peer, void* to, std::uint64_t count, DataType type = DataType::kInt32) {
  Operation operation;
  operation.kind = Operation::Kind::kRecv;
  operation.peer = peer;
  operation.output = to;
  operation.count = count;
  operation.type = type;
  return operation;
}

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<int>(i);
  return values;
}

// Drives tasks round robin on this thread, as a group does; false if they do not end.
template <std::size_t N>
bool drive(Task (&tasks)[N]) {
  for (int round = 0; round < 100000; ++round) {
    std::size_t done = 0;
    for (Task& task : tasks) done += task.advance() == Progress::kDone ? 1u : 0u;
    if (done == N) return true;
  }
  return false;
}

TEST(Exchange, MovesAnySizeFromZeroToManyChunks) {
  Ranks ranks(small_geometry(2, 2));
  for (const std::size_t count : {0, 1, 12, 13, 1024, 1025, 100003}) {
    const std::vector<int> sent = numbers(count, 7);
    std::vector<int> got(count);
    ranks.each([&](int rank) {
      const Status ran = rank == 0 ? ranks[0].run(send(1, sent.data(), count))
                                   : ranks[1].run(recv(0, got.data(), count));
      EXPECT_TRUE(ran.ok()) << ran.error().message();
    });
    EXPECT_EQ(got, sent);
  }
}

TEST(Exchange, ASmallSendDoesNotWaitForItsReceiver) {
  Ranks ranks(2);
  const std::vector<int> sent = numbers(100, 1);
  EXPECT_TRUE(ranks[0].run(send(1, sent.data(), 100)).ok());
  std::vector<int> got(100);
  EXPECT_TRUE(ranks[1].run(recv(0, got.data(), 100)).ok());
  EXPECT_EQ(got, sent);
}

TEST(Exchange, MessagesOfAPairArriveInOrder) {
  Ranks ranks(small_geometry(2, 2));
  ranks.each([&](int rank) {
    for (int i = 0; i < 2000; ++i) {
      int value = i;
      const Status ran =
          rank == 0 ? ranks[0].run(send(1, &value, 1)) : ranks[1].run(recv(0, &value, 1));
      ASSERT_TRUE(ran.ok());
      ASSERT_EQ(value, i);
    }
  });
}

TEST(Exchange, BothDirectionsOfAGroupDoNotDeadlockOnOneThread) {
  Ranks ranks(small_geometry(2, 2));
  constexpr std::size_t kCount = 50000;  // far more than the channels hold
  const std::vector<int> to_one = numbers(kCount, 1);
  const std::vector<int> to_zero = numbers(kCount, -1000);
  std::vector<int> at_zero(kCount), at_one(kCount);
  Task tasks[4];
  ASSERT_TRUE(ranks[0].start(tasks[0], send(1, to_one.data(), kCount)).ok());
  ASSERT_TRUE(ranks[0].start(tasks[1], recv(1, at_zero.data(), kCount)).ok());
  ASSERT_TRUE(ranks[1].start(tasks[2], send(0, to_zero.data(), kCount)).ok());
  ASSERT_TRUE(ranks[1].start(tasks[3], recv(0, at_one.data(), kCount)).ok());
  ASSERT_TRUE(drive(tasks));
  EXPECT_EQ(at_one, to_one);
  EXPECT_EQ(at_zero, to_zero);
}

TEST(Exchange, ARankCanSendToItself) {
  Ranks ranks(small_geometry(1, 1));
  const std::vector<int> sent = numbers(20000, 3);
  std::vector<int> got(20000);
  Task tasks[2];
  ASSERT_TRUE(ranks[0].start(tasks[0], send(0, sent.data(), 20000)).ok());
  ASSERT_TRUE(ranks[0].start(tasks[1], recv(0, got.data(), 20000)).ok());
  ASSERT_TRUE(drive(tasks));
  EXPECT_EQ(got, sent);
}

TEST(Exchange, TwoSendsToOnePeerKeepTheirOrderWhateverIsAdvancedFirst) {
  Ranks ranks(small_geometry(2, 2));
  const std::vector<int> first = numbers(3000, 0);
  const std::vector<int> second = numbers(10, 9000);
  std::vector<int> got_first(3000), got_second(10);
  Task tasks[4];
  ASSERT_TRUE(ranks[0].start(tasks[1], send(1, first.data(), 3000)).ok());
  ASSERT_TRUE(ranks[0].start(tasks[0], send(1, second.data(), 10)).ok());
  ASSERT_TRUE(ranks[1].start(tasks[3], recv(0, got_first.data(), 3000)).ok());
  ASSERT_TRUE(ranks[1].start(tasks[2], recv(0, got_second.data(), 10)).ok());
  ASSERT_TRUE(drive(tasks));
  EXPECT_EQ(got_first, first);
  EXPECT_EQ(got_second, second);
}

TEST(Exchange, GoesOnBesideACollective) {
  Ranks ranks(small_geometry(2, 2));
  ranks.each([&](int rank) {
    float in[3] = {1, 2, 3}, out[3] = {};
    Operation sum;
    sum.input = in;
    sum.output = out;
    sum.count = 3;
    int value = 42 + rank, other = 0;
    Task tasks[3];
    ASSERT_TRUE(ranks[rank].start(tasks[0], sum).ok());
    ASSERT_TRUE(ranks[rank].start(tasks[1], send(1 - rank, &value, 1)).ok());
    ASSERT_TRUE(ranks[rank].start(tasks[2], recv(1 - rank, &other, 1)).ok());
    bool done = false;
    for (int round = 0; round < 1000000 && !done; ++round) done = drive(tasks);
    ASSERT_TRUE(done);
    EXPECT_EQ(other, 42 + 1 - rank);
    EXPECT_EQ(out[2], 6.0f);
  });
}

TEST(Exchange, ASizeThatDiffersIsAnErrorOnBothSidesThatNamesBoth) {
  Ranks ranks(2);
  const std::vector<int> sent = numbers(8, 0);
  std::vector<int> got(6);
  ASSERT_TRUE(ranks[0].run(send(1, sent.data(), 8)).ok());  // it had left already
  const Status received = ranks[1].run(recv(0, got.data(), 6));
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code(), Code::kInvalidUsage);
  EXPECT_EQ(received.error().message(),
            "rank 0 sends count=8 int32 to rank 1, which receives count=6 int32 from it");
  const Status later = ranks[0].run(send(1, sent.data(), 8));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().message(), received.error().message());
  EXPECT_EQ(ranks[0].async_error().error().message(), received.error().message());
}

TEST(Exchange, WrongArgumentsAreRefusedAndTakeNoPlace) {
  Ranks ranks(2);
  const auto message = [&](const Operation& operation) {
    const Status ran = ranks[0].run(operation);
    return ran.ok() ? std::string("(ok)") : ran.error().message();
  };
  int value = 5;
  EXPECT_EQ(message(send(2, &value, 1)), "Send: peer is 2, but ranks go from 0 to 1");
  EXPECT_EQ(message(recv(-1, &value, 1)), "Recv: peer is -1, but ranks go from 0 to 1");
  EXPECT_EQ(message(send(1, nullptr, 1)), "Send: the buffer is null");
  EXPECT_EQ(message(send(1, &value, 1, static_cast<DataType>(12))),
            "Send: data type 12 does not exist");
  EXPECT_EQ(
      message(send(1, &value, std::uint64_t{1} << 60)),
      "Send: count 1152921504606846976 is more than 4398046511103, the most that is possible");
  Operation sum;
  sum.count = 1;
  EXPECT_EQ(message(sum), "AllReduce: the send buffer is null");
  sum.input = &value;
  EXPECT_EQ(message(sum), "AllReduce: the receive buffer is null");
  sum.collective = schedule::Collective::kBroadcast;
  sum.root = 2;
  EXPECT_EQ(message(sum), "Broadcast: root is 2, but ranks go from 0 to 1");
  // The pair still works: nothing was sent.
  ASSERT_EQ(message(send(1, &value, 1)), "(ok)");
  int got = 0;
  ASSERT_TRUE(ranks[1].run(recv(0, &got, 1)).ok());
  EXPECT_EQ(got, 5);
}

}  // namespace
}  // namespace sabot::host
