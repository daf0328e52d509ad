// Streams: order, bounds, errors at synchronisation, and handles that are not ours.
#include <sabot/stream.h>

#include <poll.h>

#include <atomic>

#include "comm/host_fixture.hpp"

extern "C" const char* sabot_stream_c_test(void);

namespace sabot::comm {
namespace {

class StreamHandle {
 public:
  StreamHandle() { EXPECT_EQ(sabot_stream_create(&stream_), ncclSuccess); }
  ~StreamHandle() { sabot_stream_destroy(stream_); }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: reads like the CUDA call

 private:
  cudaStream_t stream_ = nullptr;
};

TEST(Stream, WorksFromC) { EXPECT_EQ(sabot_stream_c_test(), nullptr); }

TEST(Stream, RunsBehindTheCallerInOrder) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle first;
  const StreamHandle second;
  const cudaStream_t streams[] = {first, second};
  std::vector<int> values{1, 1};
  // One thread issues for both ranks without a group: only streams make that possible.
  for (int step = 0; step < 20; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      EXPECT_EQ(host.say(host.AllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, clique[rank],
                                        streams[i])),
                "ok");
    }
  }
  for (const cudaStream_t stream : streams) {
    EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
    EXPECT_EQ(sabot_stream_query(stream), ncclSuccess);
  }
  EXPECT_EQ(list(values), "1048576 1048576");
}

TEST(Stream, IsInProgressWhileThePeerIsMissing) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  int value = 1;
  ASSERT_EQ(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], stream), ncclSuccess);
  EXPECT_EQ(sabot_stream_query(stream), ncclInProgress);
  int other = 2;
  ASSERT_EQ(host.AllReduce(&other, &other, 1, ncclInt32, ncclSum, clique[1], nullptr), ncclSuccess);
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
  EXPECT_EQ(value, 3);
}

TEST(Stream, OperationsOfOneCommunicatorKeepTheirOrderOverStreamsAndTheCaller) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    const StreamHandle a;
    const StreamHandle b;
    int x = 1;
    int y = 0;
    int z = 0;
    for (int round = 0; round < 50; ++round) {
      host.AllReduce(&x, &y, 1, ncclInt32, ncclSum, clique[rank], a);
      host.AllReduce(&y, &z, 1, ncclInt32, ncclMax, clique[rank], b);
      host.AllReduce(&z, &x, 1, ncclInt32, ncclMin, clique[rank], nullptr);
      x = x % 1000 + rank;
    }
    sabot_stream_synchronize(a);
    sabot_stream_synchronize(b);
    return std::to_string(y) + " " + std::to_string(z);
  });
  EXPECT_EQ(said[0], said[1]);
}

TEST(Stream, GroupOfOneThreadOnOneStreamDrivesAllItsRanks) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  std::vector<int> in{3, 4};
  std::vector<int> out(2);
  host.GroupStart();
  for (int rank = 0; rank < 2; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    host.AllReduce(&in[i], &out[i], 1, ncclInt32, ncclSum, clique[rank], stream);
  }
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
  EXPECT_EQ(list(out), "7 7");
}

TEST(Stream, GroupOverSeveralStreamsIsSeenByAllOfThem) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    const StreamHandle a;
    const StreamHandle b;
    const int peer = 1 - rank;
    std::vector<int> out(100'000, rank);
    std::vector<int> in(out.size(), -1);
    host.GroupStart();
    host.Send(out.data(), out.size(), ncclInt32, peer, clique[rank], a);
    host.Recv(in.data(), in.size(), ncclInt32, peer, clique[rank], b);
    std::string said_here = host.say(host.GroupEnd());
    said_here += " " + host.say(sabot_stream_synchronize(b));
    return said_here + " " + std::to_string(in.back());
  });
  EXPECT_EQ(said, (Texts{"ok ok 1", "ok ok 0"}));
}

TEST(Stream, MixedWithTheNullStreamInAGroupIsDoneWhenTheGroupEnds) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    const StreamHandle a;
    int x = rank + 1;
    int y = 0;
    int z = 0;
    host.GroupStart();
    host.AllReduce(&x, &y, 1, ncclInt32, ncclSum, clique[rank], a);
    host.AllReduce(&x, &z, 1, ncclInt32, ncclMax, clique[rank], nullptr);
    const std::string result = host.say(host.GroupEnd());
    return result + " " + list(std::vector<int>{y, z});
  });
  EXPECT_EQ(said, same(2, "ok 3 2"));
}

TEST(Stream, ReportsAFailureOnceWhenItIsSynchronised) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    const StreamHandle stream;
    std::vector<float> data(4);
    std::string text = host.say(host.AllReduce(data.data(), data.data(), rank == 0 ? 1 : 4,
                                               ncclFloat32, ncclSum, clique[rank], stream));
    text += "; " + host.say(sabot_stream_synchronize(stream));
    return text + "; " + host.say(sabot_stream_synchronize(stream));
  });
  for (const std::string& text : said) {
    EXPECT_THAT(text, ::testing::StartsWith("ok; 5 sabot_stream_synchronize: ncclAllReduce: "));
    EXPECT_THAT(text, ::testing::EndsWith("; ok"));
  }
}

TEST(Stream, HeldByAMissingPeerIsReleasedByAbort) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  int value = 1;
  for (int i = 0; i < 3; ++i) {
    host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], stream);
  }
  EXPECT_EQ(host.say(host.CommAbort(clique[0])), "ok");
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)),
            "3 sabot_stream_synchronize: ncclAllReduce: this communicator was aborted by its own "
            "rank 0");
}

TEST(Stream, WithAFullQueueHoldsTheCallerUntilThereIsRoom) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  int value = 1;
  std::atomic<int> issued{0};
  std::thread issuer([&] {
    for (int i = 0; i < 1100; ++i) {
      host.AllReduce(&value, &value, 1, ncclInt32, ncclMax, clique[0], stream);
      issued.fetch_add(1);
    }
  });
  // One entry runs, 1024 wait; the peer that would let it go on has not called.
  for (int i = 0; i < 5000 && issued.load() < 1025; ++i) ::poll(nullptr, 0, 1);
  ::poll(nullptr, 0, 20);
  EXPECT_EQ(issued.load(), 1025);
  int other = 5;
  for (int i = 0; i < 1100; ++i) {
    host.AllReduce(&other, &other, 1, ncclInt32, ncclMax, clique[1], nullptr);
  }
  issuer.join();
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
  EXPECT_EQ(value, 5);
}

TEST(Stream, DestroyedWithWorkLeftStillRunsIt) {
  const Host host;
  const Clique clique(host, 2);
  int value = 1;
  int other = 1;
  {
    const StreamHandle stream;
    host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], stream);
  }
  EXPECT_EQ(host.say(host.AllReduce(&other, &other, 1, ncclInt32, ncclSum, clique[1], nullptr)),
            "ok");
  EXPECT_EQ(other, 2);
  EXPECT_EQ(host.say(host.CommFinalize(clique[0])), "ok") << "waits for the operation";
  EXPECT_EQ(value, 2);
}

TEST(Stream, DestroyOfACommunicatorWaitsForItsOperations) {
  const Host host;
  const StreamHandle stream;
  std::vector<ncclComm_t> comms(2);
  ASSERT_EQ(host.CommInitAll(comms.data(), 2, nullptr), ncclSuccess);
  int value = 1;
  int other = 1;
  host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, comms[0], stream);
  std::thread late([&] {
    ::poll(nullptr, 0, 30);
    host.AllReduce(&other, &other, 1, ncclInt32, ncclSum, comms[1], nullptr);
  });
  EXPECT_EQ(host.say(host.CommDestroy(comms[0])), "ok");
  EXPECT_EQ(value, 2);
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok");
  late.join();
  EXPECT_EQ(other, 2);
  EXPECT_EQ(host.say(host.CommDestroy(comms[1])), "ok");
}

// What calls in a stream's order were told, one line each.
struct Diary {
  std::mutex mutex;
  Texts lines;
  static void write(void* user, ncclResult_t outcome, const char* text) {
    Diary& diary = *static_cast<Diary*>(user);
    const std::lock_guard<std::mutex> lock(diary.mutex);
    diary.lines.push_back(std::to_string(outcome) + " " + text);
  }
};

TEST(StreamCall, RunsAfterEverythingQueuedBeforeAndBeforeEverythingLater) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  std::vector<int> values(2, 1);
  struct Seen {
    const int* value;
    std::vector<int> at;
  } seen{&values[0], {}};
  const auto look = [](void* user, ncclResult_t, const char*) {
    Seen& here = *static_cast<Seen*>(user);
    here.at.push_back(*here.value);
  };
  for (int i = 0; i < 3; ++i) {
    host.AllReduce(&values[0], &values[0], 1, ncclInt32, ncclSum, clique[0], stream);
    EXPECT_EQ(host.say(sabot_stream_call(stream, look, &seen)), "ok");
  }
  EXPECT_EQ(sabot_stream_query(stream), ncclInProgress);
  for (int i = 0; i < 3; ++i) {
    host.AllReduce(&values[1], &values[1], 1, ncclInt32, ncclSum, clique[1], nullptr);
  }
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok") << "waits for the calls as well";
  EXPECT_EQ(list(seen.at), "2 4 8");
}

TEST(StreamCall, IsHandedTheFirstFailureBeforeItAndTakesIt) {
  const Host host;
  const Clique clique(host, 2);
  const StreamHandle stream;
  Diary diary;
  int value = 1;
  sabot_stream_call(stream, Diary::write, &diary);
  for (int i = 0; i < 2; ++i) {
    host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], stream);
  }
  sabot_stream_call(stream, Diary::write, &diary);
  sabot_stream_call(stream, Diary::write, &diary);
  EXPECT_EQ(host.say(host.CommAbort(clique[0])), "ok");
  EXPECT_EQ(host.say(sabot_stream_synchronize(stream)), "ok") << "a call has taken the failure";
  EXPECT_EQ(
      diary.lines,
      (Texts{"0 ", "3 ncclAllReduce: this communicator was aborted by its own rank 0", "0 "}));
}

TEST(StreamCall, OnTheNullStreamRunsAtOnceInTheCaller) {
  std::thread::id caller;
  const auto note = [](void* user, ncclResult_t outcome, const char* text) {
    if (outcome == ncclSuccess && *text == '\0')
      *static_cast<std::thread::id*>(user) = std::this_thread::get_id();
  };
  EXPECT_EQ(sabot_stream_call(nullptr, note, &caller), ncclSuccess);
  EXPECT_EQ(caller, std::this_thread::get_id());
}

TEST(StreamCall, MayEndTheHandleOfItsOwnStream) {
  struct Ending {
    cudaStream_t stream = nullptr;
    std::atomic<int> result{-1};
  } ending;
  ASSERT_EQ(sabot_stream_create(&ending.stream), ncclSuccess);
  const auto end = [](void* user, ncclResult_t, const char*) {
    Ending& here = *static_cast<Ending*>(user);
    here.result.store(sabot_stream_destroy(here.stream));
  };
  ASSERT_EQ(sabot_stream_call(ending.stream, end, &ending), ncclSuccess);
  for (int i = 0; i < 5000 && ending.result.load() < 0; ++i) ::poll(nullptr, 0, 1);
  EXPECT_EQ(ending.result.load(), 0);
}

TEST(StreamCall, IsRefusedWithoutAFunctionOrAStreamOfOurs) {
  const Host host;
  Diary diary;
  EXPECT_EQ(host.say(sabot_stream_call(nullptr, nullptr, nullptr)),
            "4 sabot_stream_call: fn is NULL");
  const auto cuda_stream = reinterpret_cast<cudaStream_t>(&diary);
  EXPECT_EQ(host.say(sabot_stream_call(cuda_stream, Diary::write, &diary)),
            "5 sabot_stream_call: stream 0xP was not made by sabot_stream_create; the host engine "
            "cannot use CUDA streams, pass the null stream or one of its own");
  EXPECT_EQ(diary.lines, Texts{});
}

TEST(Stream, OfLegacyHandlesRunsAtOnce) {
  const Host host;
  const Clique clique(host, 1);
  for (const std::uintptr_t legacy : {0u, 1u, 2u}) {
    int value = 4;
    int out = 0;
    EXPECT_EQ(host.AllReduce(&value, &out, 1, ncclInt32, ncclSum, clique[0],
                             reinterpret_cast<cudaStream_t>(legacy)),
              ncclSuccess);
    EXPECT_EQ(out, 4);
    EXPECT_EQ(sabot_stream_synchronize(reinterpret_cast<cudaStream_t>(legacy)), ncclSuccess);
  }
}

TEST(Stream, ThatIsNotOursIsRefused) {
  const Host host;
  const Clique clique(host, 1);
  int value = 1;
  const auto cuda_stream = reinterpret_cast<cudaStream_t>(&value);
  EXPECT_EQ(
      host.say(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], cuda_stream)),
      "5 ncclAllReduce: stream 0xP was not made by sabot_stream_create; the host engine cannot "
      "use CUDA streams, pass the null stream or one of its own");
  EXPECT_EQ(sabot_stream_query(cuda_stream), ncclInvalidUsage);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(sabot_stream_create(&stream), ncclSuccess);
  ASSERT_EQ(sabot_stream_destroy(stream), ncclSuccess);
  EXPECT_EQ(host.say(sabot_stream_destroy(stream)),
            "4 sabot_stream_destroy: stream 0xP was destroyed before this call");
  EXPECT_EQ(host.say(sabot_stream_create(nullptr)), "4 sabot_stream_create: stream is NULL");
  EXPECT_EQ(host.say(sabot_stream_destroy(nullptr)),
            "4 sabot_stream_destroy: the null stream cannot be destroyed");
  ASSERT_EQ(sabot_stream_create(&stream), ncclSuccess);
  world::ForkedRanks child(1, [&](int) { return host.say(sabot_stream_synchronize(stream)); });
  EXPECT_EQ(child.answers(),
            Texts{"5 sabot_stream_synchronize: stream 0xP belongs to the process that "
                  "forked this one; create streams after fork"});
  sabot_stream_destroy(stream);
}

}  // namespace
}  // namespace sabot::comm
