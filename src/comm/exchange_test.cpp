// sabot/exchange.h on communicators: arguments, states, peers that die, and the failure of all.
#include <sabot/exchange.h>
#include <sabot/stream.h>

#include <poll.h>
#include <signal.h>

#include "comm/host_fixture.hpp"

extern "C" const char* sabot_exchange_c_test(ncclComm_t zero, ncclComm_t one);

namespace sabot::comm {
namespace {

struct Moved {
  ncclResult_t result = ncclSuccess;
  std::size_t bytes = 0;
};

Moved put(ncclComm_t comm, int peer, const std::string& text) {
  Moved moved;
  moved.result = sabot_channel_put(comm, peer, text.data(), text.size(), &moved.bytes);
  return moved;
}
// "ok" and what was taken, or the error; waits for the first byte.
std::string take(const Host& host, ncclComm_t comm, int peer, std::size_t bytes) {
  std::string text(bytes, '?');
  std::size_t moved = 0;
  sabot_wait_t wait;
  sabot_wait_begin(&wait, comm);
  for (;;) {
    const ncclResult_t result = sabot_channel_take(comm, peer, text.data(), bytes, &moved);
    if (result != ncclSuccess) return host.say(result);
    if (moved != 0) return text.substr(0, moved);
    sabot_wait_pause(&wait);
  }
}

// What polling says, once it says something.
std::string poll_async_error(const Host& host, ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 20'000 && state == ncclSuccess; ++i) {
    if (host.CommGetAsyncError(comm, &state) != ncclSuccess) return "cannot poll";
    ::poll(nullptr, 0, 1);
  }
  return host.say(state);
}

TEST(ByteChannel, WorksFromC) {
  const Host host;
  const Clique clique(host, 2);
  EXPECT_STREQ(sabot_exchange_c_test(clique[0], clique[1]), nullptr);
  EXPECT_EQ(poll_async_error(host, clique[0]), "6 ncclCommGetAsyncError: C has enough");
}

TEST(ByteChannel, CarriesBytesBetweenProcessesBesideCollectives) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(2, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 2);
    if (joined.said != "ok") return joined.said;
    std::string said;
    for (int i = 0; i < 100; ++i) {
      const std::string text = std::to_string(1000 + i);
      if (rank == 0) put(joined.comm, 1, text);
      int sum = 1;
      host.AllReduce(&sum, &sum, 1, ncclInt32, ncclSum, joined.comm, nullptr);
      if (rank == 1) said = take(host, joined.comm, 0, 4) + " " + std::to_string(sum);
      if (rank == 1 && said != text + " 2") return "at " + text + ": " + said;
    }
    return "ok " + host.say(host.CommDestroy(joined.comm));
  });
  EXPECT_EQ(ranks.answers(), same(2, "ok ok"));
}

TEST(ByteChannel, OvertakesACollectiveThatWaitsForIt) {
  const Host host;
  const Clique clique(host, 2);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(sabot_stream_create(&stream), ncclSuccess);
  int mine = 1;
  int other = 2;
  ASSERT_EQ(host.AllReduce(&mine, &mine, 1, ncclInt32, ncclSum, clique[0], stream), ncclSuccess);
  EXPECT_EQ(put(clique[0], 1, "go on").bytes, 5U);
  EXPECT_EQ(take(host, clique[1], 0, 5), "go on");
  ASSERT_EQ(host.AllReduce(&other, &other, 1, ncclInt32, ncclSum, clique[1], nullptr), ncclSuccess);
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
  EXPECT_EQ(mine, 3);
  sabot_stream_destroy(stream);
}

TEST(ByteChannel, NamesWhatIsWrongWithItsArguments) {
  const Host host;
  const Clique clique(host, 2);
  char byte = 0;
  std::size_t moved = 7;
  EXPECT_EQ(host.say(sabot_channel_put(clique[0], 2, &byte, 1, &moved)),
            "4 sabot_channel_put: peer is 2, but ranks go from 0 to 1");
  EXPECT_EQ(moved, 0U);
  EXPECT_EQ(host.say(sabot_channel_put(clique[0], 1, nullptr, 1, &moved)),
            "4 sabot_channel_put: data is NULL");
  EXPECT_EQ(host.say(sabot_channel_put(clique[0], 1, nullptr, 0, &moved)), "ok");
  EXPECT_EQ(host.say(sabot_channel_take(clique[0], 1, &byte, 1, nullptr)),
            "4 sabot_channel_take: moved is NULL");
  EXPECT_EQ(host.say(sabot_channel_take(nullptr, 1, &byte, 1, &moved)),
            "4 sabot_channel_take: comm is NULL; pass a communicator");
  const auto real_comm = reinterpret_cast<ncclComm_t>(&byte);
  EXPECT_EQ(host.say(sabot_channel_take(real_comm, 1, &byte, 1, &moved)),
            "4 sabot_channel_take: comm 0xP is not a communicator of Sabot's host engine; pass a "
            "handle that ncclCommInitRank or another creating function returned");
  EXPECT_EQ(sabot_channel_ready(real_comm, 1), 0);
  EXPECT_EQ(sabot_channel_ready(clique[0], 9), 0);
  std::uint64_t number = 0;
  EXPECT_EQ(host.say(sabot_comm_entered(clique[0], 2, &number)),
            "4 sabot_comm_entered: rank is 2, must be a rank of the communicator: 0 to 1");
  EXPECT_EQ(host.say(sabot_comm_entered(clique[0], 1, nullptr)),
            "4 sabot_comm_entered: number is NULL");
  EXPECT_EQ(host.say(sabot_comm_fail(clique[0], 2, "no")),
            "4 sabot_comm_fail: culprit is 2, must be a rank of the communicator, 0 to 1, or -1 "
            "for none");
  EXPECT_EQ(host.say(sabot_comm_fail(clique[0], 1, nullptr)), "4 sabot_comm_fail: text is NULL");
}

TEST(ByteChannel, OfACommunicatorThatIsNotInUseIsRefused) {
  const Host host;
  std::vector<ncclComm_t> comms(2);
  ASSERT_EQ(host.CommInitAll(comms.data(), 2, nullptr), ncclSuccess);
  ASSERT_EQ(host.say(host.CommFinalize(comms[0])), "ok");
  EXPECT_EQ(host.say(put(comms[0], 1, "x").result),
            "5 sabot_channel_put: the communicator was finalized; only destroy is left");
  host.CommDestroy(comms[0]);
  EXPECT_EQ(host.say(put(comms[0], 1, "x").result),
            "4 sabot_channel_put: comm 0xP was destroyed before this call");
  EXPECT_EQ(take(host, comms[1], 0, 1), "6 sabot_channel_take: rank 0 destroyed its communicator");
  host.CommDestroy(comms[1]);
}

TEST(ByteChannel, KeepsWhatARankPutBeforeItEnded) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(2, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 2);
    if (joined.said != "ok") return joined.said;
    if (rank == 0) {
      put(joined.comm, 1, "farewell");
      return host.say(host.CommDestroy(joined.comm));
    }
    // Only once rank 0 has left is it certain that it did not wait for us.
    std::string last;
    char none = 0;
    std::size_t moved = 0;
    while (sabot_channel_put(joined.comm, 0, &none, 1, &moved) == ncclSuccess) {
      ::poll(nullptr, 0, 1);
    }
    last = take(host, joined.comm, 0, 100);
    return last + "; " + take(host, joined.comm, 0, 100);
  });
  EXPECT_EQ(ranks.answers(),
            (Texts{"ok", "farewell; 6 sabot_channel_take: rank 0 destroyed its communicator"}));
}

TEST(ByteChannel, NamesAPeerThatWasKilled) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(3, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 3);
    if (joined.said != "ok") return joined.said;
    if (rank == 2) {
      put(joined.comm, 0, "last words");
      ::raise(SIGKILL);
    }
    const std::string first = rank == 0 ? take(host, joined.comm, 2, 100) : "";
    // Rank 1 waits for one who lives, and must know all the same.
    return first + " " + take(host, joined.comm, rank == 0 ? 2 : 0, 1);
  });
  EXPECT_EQ(ranks.answers(),
            (Texts{"last words 6 sabot_channel_take: rank 2 died (process N is gone)",
                   " 6 sabot_channel_take: rank 2 died (process N is gone)", "[signal 9]"}));
}

TEST(ByteChannel, IsReleasedByAnAbortFromAnotherThread) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(2, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 2);
    if (joined.said != "ok") return joined.said;
    if (rank == 0) return take(host, joined.comm, 1, 1);
    std::thread aborter([&] { host.CommAbort(joined.comm); });
    const std::string said = take(host, joined.comm, 0, 1);
    aborter.join();
    return said;
  });
  const Texts said = ranks.answers();
  EXPECT_EQ(said[0], "6 sabot_channel_take: rank 1 aborted its communicator");
  // Whether the poll came before or after the handle was ended.
  EXPECT_THAT(said[1], ::testing::AnyOf(
                           "3 sabot_channel_take: this communicator was aborted by its own rank 1",
                           "4 sabot_channel_take: comm 0xP was aborted before this call"));
}

// One rank of a communicator that rank 0 is about to declare failed, each in a state of its own.
std::string meet_failure(const Host& host, ncclComm_t comm, int rank) {
  int value = 1;
  ncclComm_t child = nullptr;
  cudaStream_t stream = nullptr;
  switch (rank) {
    case 1: return host.say(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
    case 2:
      sabot_stream_create(&stream);
      host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream);
      return host.say(sabot_stream_synchronize(stream));
    case 3: return poll_async_error(host, comm);
    case 4: return host.say(host.CommSplit(comm, 0, 0, &child, nullptr));
    case 5:
      host.GroupStart();
      host.Recv(&value, 1, ncclInt32, 4, comm, nullptr);
      return host.say(host.GroupEnd());
    case 6: return take(host, comm, 1, 1);
    default: break;
  }
  char heard[2];
  std::size_t moved = 0;
  for (int peer = 1; peer < 7; ++peer) {
    sabot_wait_t wait;
    sabot_wait_begin(&wait, comm);
    while (sabot_channel_ready(comm, peer) == 0) sabot_wait_pause(&wait);
    sabot_channel_take(comm, peer, heard, 1, &moved);
  }
  return host.say(sabot_comm_fail(comm, 5, "rank 5 timed out at work"));
}

TEST(CommFail, IsSeenByEveryRankInEveryStateAndLeavesHandlesThatEndAsUsual) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(7, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 7);
    if (joined.said != "ok") return joined.said;
    if (rank != 0) put(joined.comm, 0, "x");
    std::string said = meet_failure(host, joined.comm, rank);
    int value = 1;
    said += "; " +
            host.say(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, joined.comm, nullptr));
    said += "; " + host.say(sabot_comm_fail(joined.comm, 1, "not the first"));
    said += "; " + poll_async_error(host, joined.comm);
    return said + "; " + host.say(host.CommDestroy(joined.comm));
  });
  const std::string why = "rank 5 timed out at work";
  const std::string end =
      "; 6 ncclAllReduce: " + why + "; ok; 6 ncclCommGetAsyncError: " + why + "; ok";
  EXPECT_EQ(
      ranks.answers(),
      (Texts{"ok" + end, "6 ncclAllReduce: " + why + end,
             "6 sabot_stream_synchronize: ncclAllReduce: " + why + end,
             "6 ncclCommGetAsyncError: " + why + end, "6 ncclCommSplit: " + why + end,
             "6 ncclGroupEnd: ncclRecv: " + why + end, "6 sabot_channel_take: " + why + end}));
}

TEST(CommFail, LeavesTheSurvivorsToShrink) {
  const Host host;
  const Clique clique(host, 3);
  ASSERT_EQ(host.say(sabot_comm_fail(clique[1], 2, "enough")), "ok");
  const Texts said = in_threads(2, [&](int rank) {
    int exclude = 2;
    ncclComm_t child = nullptr;
    std::string text =
        host.say(host.CommShrink(clique[rank], &exclude, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    int value = rank;
    text += " " + host.say(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, child, nullptr));
    host.CommDestroy(child);
    return text + " " + std::to_string(value);
  });
  EXPECT_EQ(said, same(2, "ok ok 1"));
}

TEST(CommFail, CutsATextThatIsTooLong) {
  const Host host;
  const Clique clique(host, 1);
  ASSERT_EQ(host.say(sabot_comm_fail(clique[0], -1, std::string(2500, 'x').c_str())), "ok");
  EXPECT_EQ(poll_async_error(host, clique[0]),
            "6 ncclCommGetAsyncError: " + std::string(1919, 'x'));
}

TEST(CommEntered, ShowsWhichRankIsBehind) {
  const Host host;
  const Clique clique(host, 2);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(sabot_stream_create(&stream), ncclSuccess);
  int values[2] = {1, 1};
  for (int i = 0; i < 3; ++i) {
    host.AllReduce(&values[1], &values[1], 1, ncclInt32, ncclSum, clique[1], stream);
  }
  std::uint64_t number = 0;
  for (int i = 0; i < 20'000 && number == 0; ++i) {
    ASSERT_EQ(sabot_comm_entered(clique[0], 1, &number), ncclSuccess);
    ::poll(nullptr, 0, 1);
  }
  EXPECT_EQ(number, 1U) << "the others are queued";
  EXPECT_EQ(sabot_comm_entered(clique[0], 0, &number), ncclSuccess);
  EXPECT_EQ(number, 0U);
  for (int i = 0; i < 3; ++i) {
    host.AllReduce(&values[0], &values[0], 1, ncclInt32, ncclSum, clique[0], nullptr);
  }
  sabot_stream_synchronize(stream);
  EXPECT_EQ(sabot_comm_entered(clique[0], 1, &number), ncclSuccess);
  EXPECT_EQ(number, 3U);
  sabot_stream_destroy(stream);
}

}  // namespace
}  // namespace sabot::comm
