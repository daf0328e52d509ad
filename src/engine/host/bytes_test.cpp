// Byte channels: order, cuts, bounds, and what ends a vain wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "engine/host/ranks_fixture.hpp"

namespace sabot::host {
namespace {

// What a byte at a place of the stream is, so that any cut or exchange of order shows.
std::byte byte_at(std::uint64_t place) {
  return static_cast<std::byte>(mix(0x5ab07, place / 8) >> place % 8 * 8 & 0xff);
}

Bytes stream_bytes(std::uint64_t begin, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = byte_at(begin + i);
  return bytes;
}

// Polls until `poll` gives something else than 0 bytes, for seconds at most.
Result<std::size_t> patiently(const std::function<Result<std::size_t>()>& poll) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Waiter waiter(true);
  for (;;) {
    Result<std::size_t> moved = poll();
    if (!moved.ok() || *moved != 0) return moved;
    if (std::chrono::steady_clock::now() > deadline) return moved;
    waiter.pause();
  }
}

std::string say(const Result<std::size_t>& result) {
  return result.ok() ? std::to_string(*result) : result.error().message();
}

Result<std::size_t> put(Endpoint& end, int peer, std::size_t count) {
  return end.put_bytes(peer, stream_bytes(0, count));
}
Result<std::size_t> take(Endpoint& end, int peer, std::size_t count) {
  Bytes bytes(count);
  return end.take_bytes(peer, bytes);
}

TEST(Bytes, ComeInOrderHoweverTheyAreCut) {
  constexpr std::size_t kTotal = 300'000;
  Ranks ranks(small_geometry(2, 2));
  ranks.each([&](int rank) {
    Random random(mix(77, static_cast<std::uint64_t>(rank)));
    std::uint64_t place = 0;
    while (place < kTotal) {
      const std::size_t cut = std::min<std::size_t>(1 + random.next() % 9000, kTotal - place);
      Bytes bytes = rank == 0 ? stream_bytes(place, cut) : Bytes(cut);
      const auto moved = patiently(
          [&] { return rank == 0 ? ranks[0].put_bytes(1, bytes) : ranks[1].take_bytes(0, bytes); });
      ASSERT_TRUE(moved.ok() && *moved > 0) << "at " << place << ": " << say(moved);
      bytes.resize(*moved);
      ASSERT_EQ(bytes, stream_bytes(place, *moved)) << "at " << place;
      place += *moved;
    }
  });
}

TEST(Bytes, OfBothDirectionsAndOfEveryPairGoTheirOwnWays) {
  Ranks ranks(3);
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      const Bytes one{static_cast<std::byte>(10 * from + to)};
      ASSERT_EQ(say(ranks[from].put_bytes(to, one)), "1");
    }
  for (int to = 2; to >= 0; --to)
    for (int from = 0; from < 3; ++from) {
      Bytes one(1);
      ASSERT_EQ(say(ranks[to].take_bytes(from, one)), "1");
      EXPECT_EQ(static_cast<int>(one[0]), 10 * from + to);
    }
}

TEST(Bytes, FillTheChannelAndAreRefusedWithoutBlockingUntilThereIsRoom) {
  Ranks ranks(small_geometry(2, 2));  // two chunks of 4096 bytes
  EXPECT_EQ(say(take(ranks[1], 0, 10)), "0");
  EXPECT_FALSE(ranks[1].has_bytes(0));
  EXPECT_EQ(say(put(ranks[0], 1, 10'000)), "8192");
  EXPECT_EQ(say(put(ranks[0], 1, 10'000)), "0");
  EXPECT_TRUE(ranks[1].has_bytes(0));
  EXPECT_EQ(say(take(ranks[1], 0, 4095)), "4095");
  EXPECT_EQ(say(put(ranks[0], 1, 10)), "0") << "its last byte still lies in the chunk";
  EXPECT_EQ(say(take(ranks[1], 0, 1)), "1");
  EXPECT_EQ(say(put(ranks[0], 1, 10)), "10");
  EXPECT_EQ(say(take(ranks[1], 0, 10'000)), "4106");
  EXPECT_EQ(say(put(ranks[0], 1, 0)), "0");
  EXPECT_FALSE(ranks[1].has_bytes(0));
}

TEST(Bytes, FillAMebibyteOfAnOrdinaryChannel) {
  Ranks ranks(2);
  EXPECT_EQ(say(put(ranks[0], 1, 2'000'000)), "1048576");
}

TEST(Bytes, DoNotMixWithMessagesOfTheSameDirection) {
  Ranks ranks(2);
  Operation message;
  message.peer = 1;
  message.type = DataType::kInt32;
  message.count = 1;
  int value = 3;
  message.input = message.output = &value;
  ASSERT_EQ(say(put(ranks[0], 1, 1)), "1");
  ASSERT_EQ(say(take(ranks[0], 1, 1)), "0");
  message.kind = Operation::Kind::kSend;
  EXPECT_EQ(ranks[0].run(message).error().message(),
            "Send: the channel to rank 1 carries raw bytes (sabot_channel_put); send on another "
            "communicator");
  message.kind = Operation::Kind::kRecv;
  EXPECT_EQ(ranks[0].run(message).error().message(),
            "Recv: the channel from rank 1 carries raw bytes (sabot_channel_take); receive on "
            "another communicator");
  EXPECT_EQ(ranks[0].async_error().ok(), true) << "a refusal breaks nothing";
}

TEST(Bytes, DoNotMixWithMessagesThatCameFirst) {
  Ranks ranks(2);
  Operation message;
  message.kind = Operation::Kind::kSend;
  message.peer = 1;
  message.type = DataType::kInt32;
  message.count = 1;
  int value = 3;
  message.input = message.output = &value;
  ASSERT_TRUE(ranks[0].run(message).ok());
  EXPECT_EQ(say(put(ranks[0], 1, 1)),
            "the channel to rank 1 carries messages of ncclSend; put bytes on another "
            "communicator");
  message.kind = Operation::Kind::kRecv;
  message.peer = 0;
  ASSERT_TRUE(ranks[1].run(message).ok());
  EXPECT_EQ(say(take(ranks[1], 0, 1)),
            "the channel from rank 0 carries messages of ncclRecv; take bytes on another "
            "communicator");
}

TEST(Bytes, ThatMeetAMessageOfThePeerAreAMismatchOnAllRanks) {
  Ranks ranks(2);
  Operation message;
  message.kind = Operation::Kind::kSend;
  message.peer = 1;
  message.type = DataType::kInt32;
  message.count = 6;
  std::vector<int> values(6);
  message.input = message.output = values.data();
  ASSERT_TRUE(ranks[0].run(message).ok());
  const std::string expected =
      "rank 0 sends count=6 int32 to rank 1, which receives raw bytes from it";
  EXPECT_EQ(say(take(ranks[1], 0, 1)), expected);
  EXPECT_EQ(ranks[0].async_error().error().message(), expected);
}

TEST(Bytes, ThatAMessageMeetsAreAMismatchOnAllRanks) {
  Ranks ranks(2);
  ASSERT_EQ(say(put(ranks[0], 1, 24)), "24");
  Operation message;
  message.kind = Operation::Kind::kRecv;
  message.peer = 0;
  message.type = DataType::kInt32;
  message.count = 6;
  std::vector<int> values(6);
  message.output = values.data();
  const std::string expected =
      "rank 0 sends raw bytes to rank 1, which receives count=6 int32 from it";
  EXPECT_EQ(ranks[1].run(message).error().message(), expected);
  EXPECT_EQ(say(put(ranks[0], 1, 1)), expected);
}

TEST(Bytes, WrongPeersAreNamed) {
  Ranks ranks(2);
  EXPECT_EQ(say(put(ranks[0], 2, 1)), "peer is 2, but ranks go from 0 to 1");
  EXPECT_EQ(say(take(ranks[0], -1, 1)), "peer is -1, but ranks go from 0 to 1");
  EXPECT_FALSE(ranks[0].has_bytes(2));
}

TEST(Bytes, OfAPeerThatLeftComeFirstAndThenTheNews) {
  Ranks ranks(3);
  ASSERT_EQ(say(put(ranks[1], 0, 500)), "500");
  EXPECT_TRUE(ranks[1].finalize().ok()) << "bytes need not be taken before their rank leaves";
  ranks.close(1);
  ranks.liveness.kill(1);
  EXPECT_EQ(say(take(ranks[0], 1, 400)), "400");
  EXPECT_EQ(say(take(ranks[0], 1, 400)), "100");
  EXPECT_EQ(say(take(ranks[0], 1, 400)), "rank 1 destroyed its communicator");
  EXPECT_EQ(take(ranks[0], 1, 400).error().code(), Code::kRemote);
  EXPECT_EQ(say(put(ranks[0], 1, 400)), "rank 1 destroyed its communicator");
  EXPECT_TRUE(ranks[0].async_error().ok()) << "it concerns nobody else";
  EXPECT_EQ(say(put(ranks[0], 2, 4)), "4");
}

TEST(Bytes, OfAPeerThatAbortedEndWithTheNews) {
  Ranks ranks(3);
  ranks[1].abort();
  EXPECT_EQ(say(take(ranks[0], 1, 400)), "rank 1 aborted its communicator");
  EXPECT_EQ(say(put(ranks[0], 1, 400)), "rank 1 aborted its communicator");
  EXPECT_EQ(say(put(ranks[1], 0, 400)), "this communicator was aborted by its own rank 1");
  EXPECT_TRUE(ranks[0].async_error().ok());
}

TEST(C14DeadPeer, IsNoticedByWhoeverPollsForBytesOrForRoom) {
  for (const bool takes : {true, false}) {
    Ranks ranks(small_geometry(3, 2));
    EXPECT_EQ(say(put(ranks[0], 1, takes ? 1 : 20'000)), takes ? "1" : "8192");
    ranks.liveness.kill(2);  // not even the peer of this channel: the communicator is broken
    const auto start = std::chrono::steady_clock::now();
    const auto moved =
        patiently([&] { return takes ? take(ranks[0], 1, 1) : put(ranks[0], 1, 1); });
    EXPECT_EQ(say(moved), "rank 2 died (test)");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(say(put(ranks[1], 0, 1)), "rank 2 died (test)");
  }
}

TEST(Abort, FromAnotherThreadEndsPollingForBytes) {
  Ranks ranks(2);
  std::thread aborter([&] { ranks[0].abort(); });
  const auto moved = patiently([&] { return take(ranks[0], 1, 1); });
  aborter.join();
  EXPECT_EQ(say(moved), "this communicator was aborted by its own rank 0");
  EXPECT_EQ(moved.error().code(), Code::kAborted);
}

TEST(DeclaredFailure, EndsWhatWaitsOnEveryRankAndStands) {
  Ranks ranks(4);
  std::vector<std::string> messages(4);
  ranks.each([&](int rank) {
    Status outcome;
    if (rank == 0) {
      ranks[0].declare_failed(3, "rank 3 was late for breakfast");
      ranks[0].declare_failed(2, "not the first failure");
      float in = 1, out = 0;
      Operation later;
      later.input = &in;
      later.output = &out;
      later.count = 1;
      outcome = ranks[0].run(later);
    } else if (rank == 1) {
      float in[100] = {}, out[100] = {};
      Operation sum;
      sum.input = in;
      sum.output = out;
      sum.count = 100;
      outcome = ranks[1].run(sum);
    } else {
      const auto moved = patiently([&] { return take(ranks[rank], 0, 1); });
      if (!moved.ok()) outcome = Error(moved.error());
    }
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code(), Code::kRemote);
    EXPECT_EQ(outcome.error().peer(), 3);
    messages[static_cast<std::size_t>(rank)] = outcome.error().message();
  });
  EXPECT_THAT(messages, testing::Each("rank 3 was late for breakfast"));
  EXPECT_EQ(ranks[2].async_error().error().message(), "rank 3 was late for breakfast");
}

TEST(Entered, TellsHowFarEachRankIs) {
  Ranks ranks(2);
  float in = 1, out = 0;
  Operation sum;
  sum.input = &in;
  sum.output = &out;
  sum.count = 1;
  EXPECT_EQ(ranks[0].entered(0), 0u);
  ranks.each([&](int rank) {
    float mine = 0;
    Operation one = sum;
    one.output = &mine;
    for (int i = 0; i < 150; ++i) ASSERT_TRUE(ranks[rank].run(one).ok());
  });
  Task task;
  ASSERT_TRUE(ranks[1].start(task, sum).ok());
  EXPECT_EQ(ranks[0].entered(1), 150u) << "queued is not begun";
  EXPECT_EQ(task.advance(), Progress::kBlocked);
  EXPECT_EQ(ranks[0].entered(0), 150u);
  EXPECT_EQ(ranks[0].entered(1), 151u);
  EXPECT_TRUE(ranks[0].run(sum).ok());
  EXPECT_EQ(task.advance(), Progress::kDone);
  EXPECT_EQ(ranks[1].entered(0), 151u);
}

}  // namespace
}  // namespace sabot::host
