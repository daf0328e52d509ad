// Collectives, send and recv through the table: results in threads and processes, and every text
// about a wrong argument.
#include <array>
#include <cstdint>

#include "comm/host_fixture.hpp"

namespace sabot::comm {
namespace {

// What each rank of four gets from every collective, with values that name their origin.
std::string all_collectives(const Host& host, ncclComm_t comm, int rank) {
  std::string said;
  const auto check = [&](const char* name, ncclResult_t result, const std::vector<int>& values) {
    said +=
        std::string(name) + ": " + (result == ncclSuccess ? list(values) : host.say(result)) + "; ";
  };
  const std::vector<int> two{rank, 10 * rank};
  const std::vector<int> eight{rank,      rank + 10, rank + 20, rank + 30,
                               rank + 40, rank + 50, rank + 60, rank + 70};
  std::vector<int> out(2);
  check("allreduce", host.AllReduce(two.data(), out.data(), 2, ncclInt32, ncclSum, comm, nullptr),
        out);
  out.assign(2, -1);
  check("reduce", host.Reduce(two.data(), out.data(), 2, ncclInt32, ncclMax, 2, comm, nullptr),
        out);
  out.assign(2, -1);
  check("broadcast", host.Broadcast(two.data(), out.data(), 2, ncclInt32, 3, comm, nullptr), out);
  out = two;
  check("bcast", host.Bcast(out.data(), 2, ncclInt32, 1, comm, nullptr), out);
  out.assign(2, -1);
  check("reducescatter",
        host.ReduceScatter(eight.data(), out.data(), 2, ncclInt32, ncclSum, comm, nullptr), out);
  out.assign(4, -1);
  check("allgather", host.AllGather(two.data(), out.data(), 1, ncclInt32, comm, nullptr), out);
  out.assign(4, -1);
  check("alltoall", host.AlltoAll(eight.data(), out.data(), 1, ncclInt32, comm, nullptr), out);
  out.assign(4, -1);
  check("gather", host.Gather(two.data(), out.data(), 1, ncclInt32, 0, comm, nullptr), out);
  out.assign(1, -1);
  check("scatter", host.Scatter(eight.data(), out.data(), 1, ncclInt32, 1, comm, nullptr), out);
  return said;
}

const Texts kAllCollectives{
    "allreduce: 6 60; reduce: -1 -1; broadcast: 3 30; bcast: 1 10; reducescatter: 6 46; "
    "allgather: 0 1 2 3; alltoall: 0 1 2 3; gather: 0 1 2 3; scatter: 1; ",
    "allreduce: 6 60; reduce: -1 -1; broadcast: 3 30; bcast: 1 10; reducescatter: 86 126; "
    "allgather: 0 1 2 3; alltoall: 10 11 12 13; gather: -1 -1 -1 -1; scatter: 11; ",
    "allreduce: 6 60; reduce: 3 30; broadcast: 3 30; bcast: 1 10; reducescatter: 166 206; "
    "allgather: 0 1 2 3; alltoall: 20 21 22 23; gather: -1 -1 -1 -1; scatter: 21; ",
    "allreduce: 6 60; reduce: -1 -1; broadcast: 3 30; bcast: 1 10; reducescatter: 246 286; "
    "allgather: 0 1 2 3; alltoall: 30 31 32 33; gather: -1 -1 -1 -1; scatter: 31; "};

TEST(Collectives, AllOfThemInThreads) {
  const Host host;
  const Clique clique(host, 4);
  EXPECT_EQ(in_threads(4, [&](int rank) { return all_collectives(host, clique[rank], rank); }),
            kAllCollectives);
}

TEST(Collectives, AllOfThemInForkedProcesses) {
  const Host host;
  const ncclUniqueId id = host.id();
  world::ForkedRanks ranks(4, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 4);
    if (joined.said != "ok") return joined.said;
    std::string said = all_collectives(host, joined.comm, rank);
    return host.CommDestroy(joined.comm) == ncclSuccess ? said : host.text();
  });
  EXPECT_EQ(ranks.answers(), kAllCollectives);
}

TEST(Collectives, InPlaceWhereNcclAllowsIt) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    std::vector<int> sum{rank + 1, rank + 2};
    host.AllReduce(sum.data(), sum.data(), 2, ncclInt32, ncclSum, clique[rank], nullptr);
    std::vector<int> gathered(2, -1);
    gathered[static_cast<std::size_t>(rank)] = rank + 7;
    host.AllGather(&gathered[static_cast<std::size_t>(rank)], gathered.data(), 1, ncclInt32,
                   clique[rank], nullptr);
    std::vector<int> scattered{rank + 1, rank + 5};
    host.ReduceScatter(scattered.data(), &scattered[static_cast<std::size_t>(rank)], 1, ncclInt32,
                       ncclSum, clique[rank], nullptr);
    return list(sum) + " | " + list(gathered) + " | " +
           std::to_string(scattered[static_cast<std::size_t>(rank)]);
  });
  EXPECT_EQ(said, (Texts{"3 5 | 7 8 | 3", "3 5 | 7 8 | 11"}));
}

TEST(Collectives, OfOneRankAreCopies) {
  const Host host;
  const Clique clique(host, 1);
  const std::vector<float> in{1.5F, 2.5F};
  std::vector<float> out(2);
  EXPECT_EQ(host.AllReduce(in.data(), out.data(), 2, ncclFloat32, ncclAvg, clique[0], nullptr),
            ncclSuccess);
  EXPECT_EQ(out, in);
}

TEST(Collectives, OfNoElementsNeedNoBuffers) {
  const Host host;
  const Clique clique(host, 2);
  EXPECT_EQ(in_threads(2,
                       [&](int rank) {
                         return host.say(host.AllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum,
                                                        clique[rank], nullptr));
                       }),
            same(2, "ok"));
}

TEST(Collectives, OfEveryTypeAddUp) {
  const Host host;
  const Clique clique(host, 2);
  const std::array<std::vector<std::uint8_t>, 12> ones{{
      {1},                             // int8
      {1},                             // uint8
      {1, 0, 0, 0},                    // int32
      {1, 0, 0, 0},                    // uint32
      {1, 0, 0, 0, 0, 0, 0, 0},        // int64
      {1, 0, 0, 0, 0, 0, 0, 0},        // uint64
      {0x00, 0x3c},                    // float16
      {0, 0, 0x80, 0x3f},              // float32
      {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},  // float64
      {0x80, 0x3f},                    // bfloat16
      {0x38},                          // float8e4m3
      {0x3c},                          // float8e5m2
  }};
  const std::array<std::vector<std::uint8_t>, 12> twos{{
      {2},
      {2},
      {2, 0, 0, 0},
      {2, 0, 0, 0},
      {2, 0, 0, 0, 0, 0, 0, 0},
      {2, 0, 0, 0, 0, 0, 0, 0},
      {0x00, 0x40},
      {0, 0, 0, 0x40},
      {0, 0, 0, 0, 0, 0, 0, 0x40},
      {0x00, 0x40},
      {0x40},
      {0x40},
  }};
  in_threads(2, [&](int rank) {
    for (std::size_t type = 0; type < ones.size(); ++type) {
      std::vector<std::uint8_t> out(ones[type].size());
      EXPECT_EQ(host.say(host.AllReduce(ones[type].data(), out.data(), 1,
                                        static_cast<ncclDataType_t>(type), ncclSum, clique[rank],
                                        nullptr)),
                "ok");
      EXPECT_EQ(out, twos[type]) << "type " << type;
    }
    return std::string();
  });
}

TEST(SendRecv, MeetInEitherOrderAndAnySize) {
  const Host host;
  const Clique clique(host, 2);
  constexpr std::size_t kCount = 3'000'001;
  const Texts said = in_threads(2, [&](int rank) -> std::string {
    std::vector<std::uint8_t> data(kCount, static_cast<std::uint8_t>(rank == 0 ? 7 : 0));
    const ncclResult_t result =
        rank == 0 ? host.Send(data.data(), kCount, ncclUint8, 1, clique[0], nullptr)
                  : host.Recv(data.data(), kCount, ncclUint8, 0, clique[1], nullptr);
    return host.say(result) + " " + std::to_string(data.front()) + std::to_string(data.back());
  });
  EXPECT_EQ(said, same(2, "ok 77"));
}

TEST(SendRecv, OfNothingReturnWithoutThePeer) {
  const Host host;
  const Clique clique(host, 2);
  EXPECT_EQ(host.say(host.Send(nullptr, 0, ncclInt32, 1, clique[0], nullptr)), "ok");
  EXPECT_EQ(host.say(host.Recv(nullptr, 0, ncclInt32, 1, clique[0], nullptr)), "ok");
}

TEST(SendRecv, WithItselfMustBeGrouped) {
  const Host host;
  const Clique clique(host, 2);
  int value = 5;
  EXPECT_EQ(host.say(host.Send(&value, 1, ncclInt32, 0, clique[0], nullptr)),
            "5 ncclSend: peer is this rank itself (0); issue its send and its recv in one "
            "group");
  int got = 0;
  host.GroupStart();
  EXPECT_EQ(host.Send(&value, 1, ncclInt32, 0, clique[0], nullptr), ncclSuccess);
  EXPECT_EQ(host.Recv(&got, 1, ncclInt32, 0, clique[0], nullptr), ncclSuccess);
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(got, 5);
}

TEST(RedOp, PreMulSumMultipliesBeforeItAdds) {
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    float scalar = rank == 0 ? 2.0F : 0.5F;
    ncclRedOp_t op{};
    EXPECT_EQ(host.say(host.RedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate,
                                                 clique[rank])),
              "ok");
    scalar = 100;  // was read already
    const float in = 8;
    float out = 0;
    host.AllReduce(&in, &out, 1, ncclFloat32, op, clique[rank], nullptr);
    EXPECT_EQ(host.say(host.RedOpDestroy(op, clique[rank])), "ok");
    return std::to_string(static_cast<int>(out)) + " " +
           host.say(host.RedOpDestroy(op, clique[rank]));
  });
  EXPECT_THAT(said,
              ::testing::Each(::testing::MatchesRegex(
                  "20 4 ncclRedOpDestroy: op is [0-9]+, which is neither a built-in reduction "
                  "\\(0 to 4\\) nor an operator that ncclRedOpCreatePreMulSum made for this "
                  "communicator and that still exists")));
}

TEST(RedOp, OfDeviceResidenceIsReadWhenItRuns) {
  const Host host;
  const Clique clique(host, 1);
  float scalar = 1;
  ncclRedOp_t op{};
  host.RedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarDevice, clique[0]);
  scalar = 3;
  const float in = 2;
  float out = 0;
  EXPECT_EQ(host.say(host.AllReduce(&in, &out, 1, ncclFloat32, op, clique[0], nullptr)), "ok");
  EXPECT_EQ(out, 6);
}

TEST(RedOp, OfAnotherCommunicatorOrTypeIsRefused) {
  const Host host;
  const Clique clique(host, 1);
  const Clique other(host, 1);
  float scalar = 1;
  ncclRedOp_t op{};
  host.RedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, clique[0]);
  float value = 0;
  EXPECT_THAT(host.say(host.AllReduce(&value, &value, 1, ncclFloat32, op, other[0], nullptr)),
              ::testing::HasSubstr("which is neither a built-in reduction"));
  EXPECT_EQ(host.say(host.AllReduce(&value, &value, 1, ncclInt32, op, clique[0], nullptr)),
            "4 ncclAllReduce: op was created for float32, but datatype is int32");
  EXPECT_EQ(host.say(host.RedOpCreatePreMulSum(&op, nullptr, ncclFloat32, ncclScalarHostImmediate,
                                               clique[0])),
            "4 ncclRedOpCreatePreMulSum: scalar is NULL");
  EXPECT_EQ(host.say(host.RedOpCreatePreMulSum(nullptr, &scalar, ncclFloat32,
                                               ncclScalarHostImmediate, clique[0])),
            "4 ncclRedOpCreatePreMulSum: op is NULL");
  EXPECT_EQ(host.say(host.RedOpCreatePreMulSum(&op, &scalar, static_cast<ncclDataType_t>(12),
                                               ncclScalarHostImmediate, clique[0])),
            "4 ncclRedOpCreatePreMulSum: datatype is 12, must be an ncclDataType_t: 0 to 11");
}

TEST(Arguments, AreNamedWithTheirValueAndWhatWasExpected) {
  const Host host;
  const Clique clique(host, 2);
  float a = 0;
  float b = 0;
  const auto all_reduce = [&](const void* send, void* recv, std::size_t count, int type, int op) {
    return host.say(host.AllReduce(send, recv, count, static_cast<ncclDataType_t>(type),
                                   static_cast<ncclRedOp_t>(op), clique[0], nullptr));
  };
  EXPECT_EQ(
      all_reduce(nullptr, &b, 1, 7, 0),
      "4 ncclAllReduce: sendbuff is NULL with a count of 1, must point to host memory on this "
      "rank");
  EXPECT_EQ(
      all_reduce(&a, nullptr, 3, 7, 0),
      "4 ncclAllReduce: recvbuff is NULL with a count of 3, must point to host memory on this "
      "rank");
  EXPECT_EQ(all_reduce(&a, &b, 1, 12, 0),
            "4 ncclAllReduce: datatype is 12, must be an ncclDataType_t: 0 to 11");
  EXPECT_EQ(all_reduce(&a, &b, 1, 15, 0),
            "4 ncclAllReduce: datatype is 15, must be an ncclDataType_t: 0 to 11");
  EXPECT_EQ(all_reduce(&a, &b, 1, 7, 5),
            "4 ncclAllReduce: op is 5, which is neither a built-in reduction (0 to 4) nor an "
            "operator that ncclRedOpCreatePreMulSum made for this communicator and that still "
            "exists");
  EXPECT_EQ(all_reduce(&a, &b, static_cast<std::size_t>(-1), 7, 0),
            "4 ncclAllReduce: count is 18446744073709551615, more elements than an address space "
            "holds; was a negative number passed?");
  EXPECT_EQ(host.say(host.Broadcast(&a, &b, 1, ncclFloat32, -1, clique[0], nullptr)),
            "4 ncclBroadcast: root is -1, must be a rank of the communicator: 0 to 1");
  EXPECT_EQ(host.say(host.Reduce(&a, &b, 1, ncclFloat32, ncclSum, 2, clique[0], nullptr)),
            "4 ncclReduce: root is 2, must be a rank of the communicator: 0 to 1");
  EXPECT_EQ(host.say(host.Send(&a, 1, ncclFloat32, 2, clique[0], nullptr)),
            "4 ncclSend: peer is 2, must be a rank of the communicator: 0 to 1");
}

TEST(Arguments, OfNullAndForeignHandlesAreRefusedWithoutTouchingThem) {
  const Host host;
  float a = 0;
  EXPECT_EQ(host.say(host.AllReduce(&a, &a, 1, ncclFloat32, ncclSum, nullptr, nullptr)),
            "4 ncclAllReduce: comm is NULL; pass a communicator");
  EXPECT_EQ(host.say(host.AllReduce(&a, &a, 1, ncclFloat32, ncclSum,
                                    reinterpret_cast<ncclComm_t>(0x1234), nullptr)),
            "4 ncclAllReduce: comm 0xP is not a communicator of Sabot's host engine; pass a handle "
            "that ncclCommInitRank or another creating function returned");
}

TEST(Mismatch, IsAnErrorOnEveryRankThatNamesBothShapes) {  // case C13
  const Host host;
  const Clique clique(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    std::vector<float> data(16);
    return host.say(host.AllReduce(data.data(), data.data(), rank == 0 ? 8 : 16, ncclFloat32,
                                   ncclSum, clique[rank], nullptr));
  });
  for (const std::string& text : said) {
    EXPECT_THAT(text, ::testing::StartsWith("5 ncclAllReduce: "));
    EXPECT_THAT(text, ::testing::HasSubstr("count=8"));
    EXPECT_THAT(text, ::testing::HasSubstr("count=16"));
  }
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(host.CommGetAsyncError(clique[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInvalidUsage);
}

}  // namespace
}  // namespace sabot::comm
