// Streams order the work of a rank; graphs replay it. On host memory the streams are the subject's
// own.
#include <barrier>

#include "array.hpp"
#include "world.hpp"

namespace sabot::conformance {
namespace {

// A stream of the subject's, or a failure of the test where it has none.
class OwnStream {
 public:
  OwnStream() : stream_(subject().memory->create_stream()) {}
  ~OwnStream() {
    if (stream_ != nullptr) subject().memory->destroy_stream(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return stream_; }
  Verdict check() const {
    return stream_ != nullptr ? Verdict{} : out_of_step("the subject has no stream to create");
  }

 private:
  Stream stream_;
};

Verdict synchronized(Stream stream) {
  const std::string error = subject().memory->synchronize(stream);
  return error.empty() ? Verdict{} : out_of_step(error);
}

class Streams : public WithRanks {};

TEST_P(Streams, KeepTheOrderOfTheirCalls) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const OwnStream stream;
    if (Verdict none = stream.check(); none.out_of_step) return none;
    const Array<std::uint64_t> data(std::vector<std::uint64_t>(1023, 1), stream.get());
    std::uint64_t wanted = 1;
    for (int i = 0; i < 6; ++i) {
      // Each call reads what the one before it wrote.
      MUST_SUCCEED(
          AllReduce(data.data(), data.data(), 1023, ncclUint64, ncclSum, own.comm, stream.get()));
      wanted *= static_cast<std::uint64_t>(own.ranks);
    }
    if (Verdict late = synchronized(stream.get()); late.out_of_step) return late;
    return wrong(differs("chain", data.get(), std::vector<std::uint64_t>(1023, wanted)));
  });
}

TEST_P(Streams, TwoOfThemShareACommunicator) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const OwnStream first;
    const OwnStream second;
    if (Verdict none = second.check(); none.out_of_step) return none;
    const Array<float> a(std::vector<float>(500, 1.0f), first.get());
    const Array<float> b(std::vector<float>(600, 2.0f), second.get());
    MUST_SUCCEED(AllReduce(a.data(), a.data(), 500, ncclFloat32, ncclSum, own.comm, first.get()));
    MUST_SUCCEED(AllReduce(b.data(), b.data(), 600, ncclFloat32, ncclSum, own.comm, second.get()));
    const auto ranks = static_cast<float>(own.ranks);
    const std::string difference = differs("first", a.get(), std::vector<float>(500, ranks));
    if (!difference.empty()) return wrong(difference);
    return wrong(differs("second", b.get(), std::vector<float>(600, 2 * ranks)));
  });
}

TEST_P(Streams, AGroupMaySpanTwo) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const OwnStream first;
    const OwnStream second;
    if (Verdict none = second.check(); none.out_of_step) return none;
    const Array<float> a(std::vector<float>(50, 1.0f), first.get());
    const Array<float> b(std::vector<float>(60, 2.0f), second.get());
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(AllReduce(a.data(), a.data(), 50, ncclFloat32, ncclSum, own.comm, first.get()));
    MUST_SUCCEED(AllReduce(b.data(), b.data(), 60, ncclFloat32, ncclSum, own.comm, second.get()));
    MUST_SUCCEED(GroupEnd());
    const auto ranks = static_cast<float>(own.ranks);
    const std::string difference = differs("first", a.get(), std::vector<float>(50, ranks));
    if (!difference.empty()) return wrong(difference);
    return wrong(differs("second", b.get(), std::vector<float>(60, 2 * ranks)));
  });
}

// A rank whose peer never comes: its work waits on the stream until the communicator is aborted.
TEST_P(Streams, AbortEndsWorkThatWaitsForAPeer) {
  const int ranks = GetParam();
  if (ranks == 1) return;  // nobody to wait for
  auto world = World::of_threads(ranks);
  ASSERT_NE(world, nullptr);
  // Connections are made at the first collective, which must not be the one that is cut off.
  world->run([](const Rank& own, Buffers&) -> Verdict {
    const OwnStream stream;
    if (Verdict none = stream.check(); none.out_of_step) return none;
    const Array<float> data(std::vector<float>(5, 1.0f), stream.get());
    MUST_SUCCEED(
        AllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, own.comm, stream.get()));
    return synchronized(stream.get());
  });
  world->run([](const Rank& own, Buffers&) -> Verdict {
    const OwnStream stream;
    if (Verdict none = stream.check(); none.out_of_step) return none;
    const Array<float> data(std::vector<float>(5, 1.0f), nullptr);
    if (own.rank != 0)
      MUST_SUCCEED(
          AllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, own.comm, stream.get()));
    MUST_SUCCEED(CommAbort(own.comm));
    subject().memory->synchronize(stream.get());  // ends; with an error or not
    return {};
  });
  world->forget();
}

INSTANTIATE_FOR_EVERY_WORLD(Streams);

// In one thread and without a group: only a call that does not wait for its peers can get through
// this.
TEST(OnHostStreams, ACallOnAStreamReturnsBeforeItsPeersCome) {
  World* world = one_thread_world(2);
  ASSERT_NE(world, nullptr);
  const OwnStream streams[2];
  ASSERT_EQ(streams[1].check().complaint, "");
  const Array<float> a(std::vector<float>(3, 1.0f), streams[0].get());
  const Array<float> b(std::vector<float>(3, 2.0f), streams[1].get());
  const std::vector<Rank>& ranks = world->ranks();
  ASSERT_RESULT(ncclSuccess, nccl().AllReduce(a.data(), a.data(), 3, ncclFloat32, ncclSum,
                                              ranks[0].comm, streams[0].get()));
  ASSERT_RESULT(ncclSuccess, nccl().AllReduce(b.data(), b.data(), 3, ncclFloat32, ncclSum,
                                              ranks[1].comm, streams[1].get()));
  EXPECT_EQ(a.get(), std::vector<float>(3, 3.0f));
  EXPECT_EQ(b.get(), std::vector<float>(3, 3.0f));
}

std::vector<float> filled(float value) { return std::vector<float>(777, value); }

class OnGpuGraphs : public WithRanks {};

TEST_P(OnGpuGraphs, ACapturedAllReduceIsReplayedWithNewInputs) {
  // Making a graph may wait for idle GPUs, so nobody launches before all have theirs.
  std::barrier all_captured(GetParam());
  run_in_threads(GetParam(), [&](const Rank& own, Buffers&) -> Verdict {
    Memory& memory = *subject().memory;
    const Array<float> in(filled(0), own.stream);
    const Array<float> out(filled(0), own.stream);
    // Connections are made at the first collective; that is not what is captured here.
    MUST_SUCCEED(AllReduce(in.data(), out.data(), 777, ncclFloat32, ncclSum, own.comm, own.stream));
    if (Verdict late = synchronized(own.stream); late.out_of_step) return late;
    if (const std::string error = memory.begin_capture(own.stream); !error.empty())
      return out_of_step(error);
    const ncclResult_t captured =
        nccl().AllReduce(in.data(), out.data(), 777, ncclFloat32, ncclSum, own.comm, own.stream);
    void* graph = memory.end_capture(own.stream);
    all_captured.arrive_and_wait();
    if (captured != ncclSuccess || graph == nullptr)
      return out_of_step("capturing: " + text_of(captured));
    Verdict verdict;
    for (int round = 1; round <= 2 && verdict.complaint.empty(); ++round) {
      const auto value = static_cast<float>(round * (own.rank + 1));
      in.set(filled(value));
      if (const std::string error = memory.launch(graph, own.stream); !error.empty())
        return out_of_step(error);
      const auto sum = static_cast<float>(round * own.ranks * (own.ranks + 1) / 2);
      verdict = wrong(differs("replayed", out.get(), filled(sum)));
    }
    memory.destroy_graph(graph);
    return verdict;
  });
}

INSTANTIATE_FOR_EVERY_WORLD(OnGpuGraphs);

}  // namespace
}  // namespace sabot::conformance
