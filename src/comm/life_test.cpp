// Lives of communicators: how they begin, fail, are polled, end, end twice, and survive forks and
// dead peers.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "comm/host_fixture.hpp"

namespace sabot::comm {
namespace {

using world::ForkedRanks;

Options with_timeout(std::uint64_t ns) {
  Options options;
  options.timeout_ns = ns;
  return options;
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Polls until the communicator is no longer in progress.
ncclResult_t settle(const Host& host, ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int i = 0; i < 20'000 && state == ncclInProgress; ++i) {
    EXPECT_EQ(host.CommGetAsyncError(comm, &state), ncclSuccess);
    if (state == ncclInProgress) ::poll(nullptr, 0, 1);
  }
  return state;
}

std::string all_reduce(const Host& host, ncclComm_t comm) {
  float value = 1;
  const ncclResult_t result =
      host.AllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
  return result == ncclSuccess ? std::to_string(static_cast<int>(value)) : host.say(result);
}

TEST(Init, RefusesWrongArgumentsWithTheirValues) {
  const Host host(with_timeout(100'000'000));
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = host.id();
  EXPECT_EQ(host.say(host.CommInitRank(&comm, 0, id, 0)),
            "4 ncclCommInitRank: nranks is 0, must be at least 1");
  EXPECT_EQ(host.say(host.CommInitRank(&comm, 2, id, 2)),
            "4 ncclCommInitRank: rank is 2, must be 0 to 1");
  EXPECT_EQ(host.say(host.CommInitRank(&comm, 2, id, -1)),
            "4 ncclCommInitRank: rank is -1, must be 0 to 1");
  EXPECT_EQ(host.say(host.CommInitRank(&comm, 65, id, 0)),
            "4 ncclCommInitRank: nranks is 65, the host engine joins at most 64 ranks");
  EXPECT_EQ(host.say(host.CommInitRank(nullptr, 2, id, 0)),
            "4 ncclCommInitRank: comm is NULL, must point to an ncclComm_t");
  EXPECT_EQ(
      host.say(host.CommInitRank(&comm, 1, ncclUniqueId{}, 0)),
      "4 ncclCommInitRank: the unique id is all zeros; pass the id that ncclGetUniqueId filled "
      "in on one rank, and send all 128 bytes of it to the others");
  EXPECT_EQ(host.say(host.GetUniqueId(nullptr)), "4 ncclGetUniqueId: uniqueId is NULL");
  EXPECT_EQ(comm, nullptr);
}

TEST(Init, RefusesAnIdOfAnotherEngine) {
  const Host host;
  ncclUniqueId id{};
  std::memset(id.internal, 0, sizeof id.internal);
  id.internal[0] = 77;
  id.internal[8] = 2;  // AF_INET where NVIDIA's library keeps an address
  ncclComm_t comm = nullptr;
  EXPECT_EQ(
      host.say(host.CommInitRank(&comm, 1, id, 0)),
      "5 ncclCommInitRank: mixing engines: this unique id was made by NVIDIA's NCCL, but this "
      "process runs Sabot's host engine; start every rank with the same engine");
}

TEST(Init, ThatFailsOnOneRankFailsOnAllAndNamesIt) {  // case C12
  const Host host;
  const ncclUniqueId id = host.id();
  ForkedRanks ranks(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (rank == 1) config.blocking = 7;
    return host.say(host.CommInitRankConfig(&comm, 3, id, rank, &config));
  });
  const std::string reason =
      "rank 1 (pid N) failed to join: config->blocking is 7, must be at least 0 and at most 1";
  EXPECT_EQ(
      ranks.answers(),
      (Texts{"6 ncclCommInitRankConfig: joining as rank 0 of 3: " + reason,
             "4 ncclCommInitRankConfig: config->blocking is 7, must be at least 0 and at most 1",
             "6 ncclCommInitRankConfig: joining as rank 2 of 3: " + reason}));
}

TEST(Init, NamesTheRankThatNeverCame) {
  const Host host(with_timeout(300'000'000));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(
      host.say(host.CommInitRank(&comm, 2, host.id(), 0)),
      "6 ncclCommInitRank: joining as rank 0 of 2: rank 1 of 2 did not come within 0.3 s; see "
      "whether they started and reached ncclCommInitRank");
  EXPECT_EQ(comm, nullptr);
}

TEST(Init, WithSeveralIdsUsesTheFirst) {
  const Host host;
  std::vector<ncclUniqueId> ids{host.id(), host.id()};
  const Texts said = in_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclResult_t result = host.CommInitRankScalable(&comm, 3, rank, 2, ids.data(), nullptr);
    if (result != ncclSuccess) return host.say(result);
    std::string said_here = all_reduce(host, comm);
    host.CommDestroy(comm);
    return said_here;
  });
  EXPECT_EQ(said, same(3, "3"));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(host.say(host.CommInitRankScalable(&comm, 2, 0, 3, ids.data(), nullptr)),
            "4 ncclCommInitRankScalable: nId is 3, must be 1 to nranks, which is 2");
  EXPECT_EQ(host.say(host.CommInitRankScalable(&comm, 2, 0, 1, nullptr, nullptr)),
            "4 ncclCommInitRankScalable: commIds is NULL");
}

TEST(InitAll, KeepsDeviceNumbersAndRefusesWrongLists) {
  const Host host;
  std::vector<ncclComm_t> comms(2);
  const std::vector<int> devices{3, 1};
  ASSERT_EQ(host.CommInitAll(comms.data(), 2, devices.data()), ncclSuccess);
  int device = -1;
  EXPECT_EQ(host.CommCuDevice(comms[0], &device), ncclSuccess);
  EXPECT_EQ(device, 3);
  for (const ncclComm_t comm : comms) host.CommDestroy(comm);
  const std::vector<int> twice{1, 1};
  EXPECT_EQ(host.say(host.CommInitAll(comms.data(), 2, twice.data())),
            "5 ncclCommInitAll: devlist[1] is 1, which stands there twice");
  const std::vector<int> negative{0, -2};
  EXPECT_EQ(host.say(host.CommInitAll(comms.data(), 2, negative.data())),
            "4 ncclCommInitAll: devlist[1] is -2, must not be negative");
  EXPECT_EQ(host.say(host.CommInitAll(comms.data(), 0, nullptr)),
            "4 ncclCommInitAll: ndev is 0, must be 1 to 64");
  EXPECT_EQ(host.say(host.CommInitAll(nullptr, 2, nullptr)),
            "4 ncclCommInitAll: comm is NULL, must point to ndev handles");
}

TEST(NonBlocking, IsInProgressUntilAllRanksHaveCome) {  // case C10
  const Host host;
  const ncclUniqueId id = host.id();
  ncclConfig_t config = non_blocking();
  ncclComm_t first = nullptr;
  ASSERT_EQ(host.CommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  ASSERT_NE(first, nullptr);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(host.CommGetAsyncError(first, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(all_reduce(host, first),
            "4 ncclAllReduce: the communicator is still being created; wait until "
            "ncclCommGetAsyncError no longer says ncclInProgress");
  ncclComm_t second = nullptr;
  ASSERT_EQ(host.CommInitRankConfig(&second, 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(settle(host, first), ncclSuccess);
  EXPECT_EQ(settle(host, second), ncclSuccess);
  EXPECT_EQ(in_threads(2, [&](int r) { return all_reduce(host, r == 0 ? first : second); }),
            same(2, "2"));
  EXPECT_EQ(host.CommFinalize(first), ncclInProgress);
  EXPECT_EQ(settle(host, first), ncclSuccess);
  EXPECT_EQ(host.CommDestroy(first), ncclSuccess);
  EXPECT_EQ(host.CommDestroy(second), ncclSuccess);
}

TEST(NonBlocking, ThatFailsSaysWhyToWhoPolls) {
  const Host host(with_timeout(200'000'000));
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(host.CommInitRankConfig(&comm, 2, host.id(), 0, &config), ncclInProgress);
  EXPECT_EQ(settle(host, comm), ncclRemoteError);
  EXPECT_THAT(host.text(), ::testing::HasSubstr("rank 1 of 2 did not come within 0.2 s"));
  EXPECT_EQ(host.CommAbort(comm), ncclSuccess);
}

TEST(NonBlocking, IsAbortedWhileItStillWaits) {
  const Host host;
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(host.CommInitRankConfig(&comm, 2, host.id(), 0, &config), ncclInProgress);
  EXPECT_EQ(host.CommAbort(comm), ncclSuccess);
  EXPECT_EQ(host.say(host.CommDestroy(comm)),
            "4 ncclCommDestroy: comm 0xP was aborted before this call");
}

TEST(NonBlocking, InAGroupReturnsInProgressFromItsEnd) {
  const Host host;
  const ncclUniqueId id = host.id();
  ncclConfig_t config = non_blocking();
  std::vector<ncclComm_t> comms(2);
  host.GroupStart();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(host.CommInitRankConfig(&comms[static_cast<std::size_t>(rank)], 2, id, rank, &config),
              ncclSuccess);
  }
  EXPECT_EQ(host.GroupEnd(), ncclInProgress);
  for (const ncclComm_t comm : comms) EXPECT_EQ(settle(host, comm), ncclSuccess);
  for (const ncclComm_t comm : comms) EXPECT_EQ(host.CommDestroy(comm), ncclSuccess);
}

TEST(Config, OfAnOlderLayoutIsTakenAndANewerTailIgnored) {
  const Host host;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = offsetof(ncclConfig_t, cgaClusterSize);  // 2.14: blocking alone
  config.cgaClusterSize = 99;                            // lies behind the caller's struct
  ncclComm_t comm = nullptr;
  EXPECT_EQ(host.say(host.CommInitRankConfig(&comm, 1, host.id(), 0, &config)), "ok");
  host.CommDestroy(comm);
  struct Newer {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int added = 12345;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(host.say(host.CommInitRankConfig(&comm, 1, host.id(), 0, &newer.known)), "ok");
  host.CommDestroy(comm);
  config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  EXPECT_EQ(host.say(host.CommInitRankConfig(&comm, 1, host.id(), 0, &config)),
            "4 ncclCommInitRankConfig: config was not initialised; start it with "
            "NCCL_CONFIG_INITIALIZER");
  config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 8;
  config.maxCTAs = 4;
  EXPECT_EQ(
      host.say(host.CommInitRankConfig(&comm, 1, host.id(), 0, &config)),
      "4 ncclCommInitRankConfig: config->minCTAs is 8, more than config->maxCTAs, which is 4");
}

TEST(End, TwiceIsRefusedWithATextAndNoHarm) {  // case C9
  const Host host;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(host.CommInitAll(&comm, 1, nullptr), ncclSuccess);
  EXPECT_EQ(host.say(host.CommDestroy(comm)), "ok");
  const std::string gone = "comm 0xP was destroyed before this call";
  EXPECT_EQ(host.say(host.CommDestroy(comm)), "4 ncclCommDestroy: " + gone);
  EXPECT_EQ(host.say(host.CommAbort(comm)), "4 ncclCommAbort: " + gone);
  EXPECT_EQ(host.say(host.CommFinalize(comm)), "4 ncclCommFinalize: " + gone);
  EXPECT_EQ(all_reduce(host, comm), "4 ncclAllReduce: " + gone);
}

TEST(End, OfNoCommunicatorIsNothingToDo) {  // as in NCCL
  const Host host;
  EXPECT_EQ(host.say(host.CommFinalize(nullptr)), "ok");
  EXPECT_EQ(host.say(host.CommDestroy(nullptr)), "ok");
  EXPECT_EQ(host.say(host.CommAbort(nullptr)), "ok");
}

TEST(End, AfterAnErrorIsClean) {  // case C9
  const Host host;
  const Clique clique(host, 2);
  in_threads(2, [&](int rank) {
    std::vector<float> data(2);
    host.AllReduce(data.data(), data.data(), static_cast<std::size_t>(rank + 1), ncclFloat32,
                   ncclSum, clique[rank], nullptr);
    return std::string();
  });
  EXPECT_EQ(host.say(host.CommDestroy(clique[0])), "ok");
  EXPECT_EQ(host.say(host.CommAbort(clique[1])), "ok");
}

// Not a test: the program of the next one. Two ranks that end by exit(), communicators open.
TEST(End, DISABLED_ProgramThatExitsWithOpenCommunicators) {
  const Host host;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  const int rank = child == 0 ? 1 : 0;
  ncclUniqueId id{};
  if (rank == 0) {
    id = host.id();
    ASSERT_EQ(::write(pipe[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  } else {
    ASSERT_EQ(::read(pipe[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  }
  const Joined joined = join_at(host, id, rank, 2);
  const bool right = joined.said == "ok" && all_reduce(host, joined.comm) == "2";
  int status = 0;
  if (rank == 0) ::waitpid(child, &status, 0);
  std::exit(right && (rank == 1 || WEXITSTATUS(status) == 7) ? 7 : 1);  // runs exit handlers
}

TEST(End, OfTheProcessWithOpenCommunicatorsIsClean) {  // case C9
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "comm_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=End.DISABLED_ProgramThatExitsWithOpenCommunicators", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Finalize, LeavesOnlyDestroy) {
  const Host host;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(host.CommInitAll(&comm, 1, nullptr), ncclSuccess);
  EXPECT_EQ(host.say(host.CommFinalize(comm)), "ok");
  const std::string over = "the communicator was finalized; only destroy is left";
  EXPECT_EQ(host.say(host.CommFinalize(comm)), "5 ncclCommFinalize: " + over);
  EXPECT_EQ(all_reduce(host, comm), "5 ncclAllReduce: " + over);
  EXPECT_EQ(host.say(host.CommRevoke(comm, 0)), "5 ncclCommRevoke: " + over);
  EXPECT_EQ(host.say(host.CommDestroy(comm)), "ok");
}

TEST(Abort, FromAnotherThreadReleasesAHeldCall) {
  const Host host;
  const Clique clique(host, 2);
  std::string said;
  std::thread held([&] { said = all_reduce(host, clique[0]); });  // rank 1 never calls
  ::poll(nullptr, 0, 30);
  EXPECT_EQ(host.say(host.CommAbort(clique[0])), "ok");
  held.join();
  EXPECT_EQ(said, "3 ncclAllReduce: this communicator was aborted by its own rank 0");
  EXPECT_EQ(all_reduce(host, clique[1]), "2") << "what rank 0 had sent before still counts";
  EXPECT_EQ(all_reduce(host, clique[1]), "6 ncclAllReduce: rank 0 aborted its communicator");
}

TEST(Revoke, StopsOperationsAndKeepsTheHandle) {
  const Host host;
  const Clique clique(host, 2);
  std::string said;
  std::thread held([&] { said = all_reduce(host, clique[0]); });
  ::poll(nullptr, 0, 30);
  EXPECT_EQ(host.say(host.CommRevoke(clique[0], 1)),
            "4 ncclCommRevoke: revokeFlags is 1, must be NCCL_REVOKE_DEFAULT (0)");
  EXPECT_EQ(host.say(host.CommRevoke(clique[0], 0)), "ok");
  held.join();
  EXPECT_THAT(said, ::testing::StartsWith("3 ncclAllReduce: this communicator was aborted"));
  EXPECT_EQ(all_reduce(host, clique[0]),
            "5 ncclAllReduce: the communicator was revoked; only split, shrink, abort and destroy "
            "are left");
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(host.CommGetAsyncError(clique[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
}

TEST(DeadPeer, IsNamedToTheSurvivorsWithinSeconds) {  // case C14
  const Host host;
  const ncclUniqueId id = host.id();
  ForkedRanks ranks(3, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 3);
    if (joined.said != "ok") return joined.said;
    const std::string first = all_reduce(host, joined.comm);
    if (rank == 1) ::raise(SIGKILL);
    const std::string second = all_reduce(host, joined.comm);
    ncclResult_t state = ncclSuccess;
    host.CommGetAsyncError(joined.comm, &state);
    return first + "; " + second + "; " + std::to_string(state) + "; " +
           host.say(host.CommDestroy(joined.comm));
  });
  const std::string survivor = "3; 6 ncclAllReduce: rank 1 died (process N is gone); 6; ok";
  EXPECT_EQ(ranks.answers(5), (Texts{survivor, "[signal 9]", survivor}));
}

TEST(Fork, LeavesTheChildWithoutItsParentsCommunicators) {  // case C17
  const Host host;
  const Clique clique(host, 2);
  ForkedRanks child(1, [&](int) -> std::string {
    std::string said = all_reduce(host, clique[0]);
    said += "; " + host.say(host.CommDestroy(clique[0]));
    said += "; " + host.say(host.CommAbort(clique[1]));
    ncclComm_t own = nullptr;  // and a new one of its own works
    if (host.CommInitAll(&own, 1, nullptr) != ncclSuccess) return said + host.text();
    return said + "; " + all_reduce(host, own);
  });
  const std::string refused =
      "comm 0xP belongs to the process that forked this one; create communicators after fork";
  EXPECT_EQ(child.answers(), Texts{"5 ncclAllReduce: " + refused + "; 5 ncclCommDestroy: " +
                                   refused + "; 5 ncclCommAbort: " + refused + "; 1"});
  EXPECT_EQ(in_threads(2, [&](int rank) { return all_reduce(host, clique[rank]); }), same(2, "2"))
      << "the parent goes on";
}

TEST(Fork, InsideAGroupLeavesTheGroupToTheParent) {  // case C17
  const Host host;
  const Clique clique(host, 2);
  int in = 3;
  std::vector<int> out(2);
  host.GroupStart();
  host.AllReduce(&in, &out[0], 1, ncclInt32, ncclSum, clique[0], nullptr);
  ForkedRanks child(1, [&](int) { return host.say(host.GroupEnd()); });
  EXPECT_EQ(child.answers(),
            Texts{"5 ncclGroupEnd: the group was opened by the process that forked "
                  "this one; open groups after fork"});
  host.AllReduce(&in, &out[1], 1, ncclInt32, ncclSum, clique[1], nullptr);
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  EXPECT_EQ(list(out), "6 6");
}

TEST(Fork, WhileOtherThreadsUseTheEngineDoesNotHangTheChild) {  // case C17
  const Host host;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) {
      ncclComm_t comm = nullptr;
      host.CommInitAll(&comm, 1, nullptr);
      host.CommDestroy(comm);
    }
  });
  for (int i = 0; i < 20; ++i) {
    ForkedRanks child(1, [&](int) {
      ncclComm_t own = nullptr;
      if (host.CommInitAll(&own, 1, nullptr) != ncclSuccess) return host.text();
      return all_reduce(host, own);
    });
    EXPECT_EQ(child.answers(20), Texts{"1"});
  }
  stop.store(true);
  busy.join();
}

TEST(LastError, IsTheThreadsOwnElseTheProcesss) {
  const Host host;
  ncclComm_t comm = nullptr;
  host.CommInitRank(&comm, 0, ncclUniqueId{}, 0);
  std::string elsewhere;
  std::thread other([&] {
    elsewhere = host.text();
    host.CommCount(nullptr, nullptr);
  });
  other.join();
  EXPECT_EQ(elsewhere, "ncclCommInitRank: nranks is 0, must be at least 1");
  EXPECT_EQ(host.text(), "ncclCommInitRank: nranks is 0, must be at least 1");
}

}  // namespace
}  // namespace sabot::comm
