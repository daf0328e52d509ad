// Groups: nesting, several ranks in one thread, errors that launch nothing, simulation.
#include "comm/host_fixture.hpp"

namespace sabot::comm {
namespace {

TEST(Group, OfOneThreadDrivesAllItsRanks) {
  const Host host;
  const Clique clique(host, 3);
  std::vector<int> in{1, 2, 3};
  std::vector<int> out(3);
  host.GroupStart();
  for (int rank = 0; rank < 3; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    EXPECT_EQ(host.AllReduce(&in[i], &out[i], 1, ncclInt32, ncclSum, clique[rank], nullptr),
              ncclSuccess);
  }
  EXPECT_EQ(list(out), "0 0 0") << "nothing runs before the end";
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(list(out), "6 6 6");
}

TEST(Group, RunsOnlyAtTheOutermostEnd) {
  const Host host;
  const Clique clique(host, 1);
  int in = 4;
  int out = 0;
  host.GroupStart();
  host.GroupStart();
  host.AllReduce(&in, &out, 1, ncclInt32, ncclSum, clique[0], nullptr);
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(out, 0);
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(out, 4);
}

TEST(Group, EndWithoutStartIsAnError) {
  const Host host;
  EXPECT_EQ(host.say(host.GroupEnd()),
            "5 ncclGroupEnd: no group is open; call ncclGroupStart first");
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(host.say(host.GroupSimulateEnd(&info)),
            "5 ncclGroupSimulateEnd: no group is open; call ncclGroupStart first");
}

TEST(Group, ReturnsTheFirstErrorAgainAndLaunchesNothing) {
  const Host host;
  const Clique clique(host, 1);
  int in = 4;
  int out = 0;
  host.GroupStart();
  EXPECT_EQ(host.AllReduce(&in, &out, 1, ncclInt32, ncclSum, clique[0], nullptr), ncclSuccess);
  EXPECT_EQ(host.say(host.Broadcast(&in, &out, 1, ncclInt32, 9, clique[0], nullptr)),
            "4 ncclBroadcast: root is 9, must be a rank of the communicator: 0 to 0");
  EXPECT_EQ(host.AllReduce(nullptr, &out, 1, ncclInt32, ncclSum, clique[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(host.say(host.GroupEnd()),
            "4 ncclGroupEnd: ncclBroadcast: root is 9, must be a rank of the communicator: 0 to 0");
  EXPECT_EQ(out, 0);
  host.GroupStart();
  EXPECT_EQ(host.say(host.GroupEnd()), "ok") << "the next group starts clean";
}

TEST(Group, OfSendsAndReceivesIsAnAllToAll) {
  const Host host;
  const Clique clique(host, 3);
  const Texts said = in_threads(3, [&](int rank) {
    std::vector<int> out(3 * 50'000, -1);
    std::vector<int> in(out.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = rank * 10 + static_cast<int>(i / 50'000);
    host.GroupStart();
    for (int peer = 0; peer < 3; ++peer) {
      const auto at = static_cast<std::size_t>(peer) * 50'000;
      host.Send(&in[at], 50'000, ncclInt32, peer, clique[rank], nullptr);
      host.Recv(&out[at], 50'000, ncclInt32, peer, clique[rank], nullptr);
    }
    const std::string result = host.say(host.GroupEnd());
    return result + " " + list(std::vector<int>{out[0], out[50'000], out[149'999]});
  });
  EXPECT_EQ(said, (Texts{"ok 0 10 20", "ok 1 11 21", "ok 2 12 22"}));
}

TEST(Group, MixesCollectivesAndExchangesOfSeveralCommunicators) {
  const Host host;
  const Clique first(host, 2);
  const Clique second(host, 2);
  const Texts said = in_threads(2, [&](int rank) {
    int a = rank + 1;
    int b = 0;
    int c = 10 * (rank + 1);
    int d = 0;
    int e = 0;
    host.GroupStart();
    host.AllReduce(&a, &b, 1, ncclInt32, ncclSum, first[rank], nullptr);
    host.AllReduce(&c, &d, 1, ncclInt32, ncclSum, second[rank], nullptr);
    if (rank == 0) host.Send(&a, 1, ncclInt32, 1, first[0], nullptr);
    if (rank == 1) host.Recv(&e, 1, ncclInt32, 0, first[1], nullptr);
    host.AllReduce(&b, &b, 1, ncclInt32, ncclMax, first[rank], nullptr);
    const std::string result = host.say(host.GroupEnd());
    return result + " " + list(std::vector<int>{b, d, e});
  });
  EXPECT_EQ(said, (Texts{"ok 3 30 0", "ok 3 30 1"}));
}

TEST(Group, OfACreationHoldsSeveralRanksOfOneThread) {
  const Host host;
  const ncclUniqueId id = host.id();
  std::vector<ncclComm_t> comms(3);
  host.GroupStart();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(host.CommInitRank(&comms[static_cast<std::size_t>(rank)], 3, id, rank), ncclSuccess);
  }
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  for (int rank = 0; rank < 3; ++rank) {
    int count = 0;
    int mine = -1;
    host.CommCount(comms[static_cast<std::size_t>(rank)], &count);
    host.CommUserRank(comms[static_cast<std::size_t>(rank)], &mine);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(mine, rank);
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(host.CommDestroy(comm), ncclSuccess);
}

TEST(Group, WhoseCreationsFailTellsTheRanksElsewhere) {  // case C12
  const Host host;
  const ncclUniqueId id = host.id();
  const Texts said = in_threads(2, [&](int thread) {
    std::vector<ncclComm_t> comms(2);
    host.GroupStart();
    for (int i = 0; i < 2; ++i) {
      const int rank = thread * 2 + i;
      const bool wrong = rank == 3;
      host.CommInitRank(&comms[static_cast<std::size_t>(i)], 4, id, wrong ? 4 : rank);
    }
    return host.say(host.GroupEnd());
  });
  EXPECT_EQ(said[1], "4 ncclGroupEnd: ncclCommInitRank: rank is 4, must be 0 to 3");
  EXPECT_EQ(said[0],
            "6 ncclCommInitRank: joining as rank 0 of 4: rank 4 (pid N) failed to join: rank is 4, "
            "must be 0 to 3");
}

TEST(Group, WithAHandleDestroyedBeforeItsEndFailsTheOperation) {
  const Host host;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(host.CommInitAll(&comm, 1, nullptr), ncclSuccess);
  int value = 1;
  host.GroupStart();
  EXPECT_EQ(host.AllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(host.CommAbort(comm), ncclSuccess);
  EXPECT_EQ(host.say(host.GroupEnd()),
            "3 ncclGroupEnd: ncclAllReduce: this communicator was aborted by its own rank 0");
}

TEST(GroupSimulateEnd, EstimatesAndLaunchesNothing) {
  const Host host;
  const Clique clique(host, 2);
  std::vector<float> data(1 << 20, 1.0F);
  const auto estimate = [&](std::size_t count) {
    host.GroupStart();
    host.AllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, clique[0], nullptr);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_EQ(host.say(host.GroupSimulateEnd(&info)), "ok");
    return info.estimatedTime;
  };
  const float small = estimate(1);
  EXPECT_GT(small, 0);
  EXPECT_GT(estimate(data.size()), small);
  EXPECT_EQ(data[0], 1.0F);
  ncclSimInfo_t wrong{};
  host.GroupStart();
  EXPECT_EQ(host.say(host.GroupSimulateEnd(&wrong)),
            "4 ncclGroupSimulateEnd: simInfo was not initialised; start it with "
            "NCCL_SIM_INFO_INITIALIZER");
}

}  // namespace
}  // namespace sabot::comm
