// Split, shrink and grow: who sits where, who is told what when one rank cannot.
#include <poll.h>
#include <signal.h>

#include "comm/host_fixture.hpp"

namespace sabot::comm {
namespace {

using world::ForkedRanks;

// "rank of ranks = sum of 1 over the communicator".
std::string seat_of(const Host& host, ncclComm_t comm) {
  if (comm == nullptr) return "none";
  int rank = -1;
  int ranks = -1;
  host.CommUserRank(comm, &rank);
  host.CommCount(comm, &ranks);
  int one = 1;
  int sum = 0;
  const ncclResult_t result = host.AllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, nullptr);
  std::string text = std::to_string(rank) + " of " + std::to_string(ranks) + " = ";
  return text + (result == ncclSuccess ? std::to_string(sum) : host.say(result));
}

std::string split_and_tell(const Host& host, ncclComm_t parent, int color, int key) {
  ncclComm_t child = nullptr;
  const ncclResult_t result = host.CommSplit(parent, color, key, &child, nullptr);
  if (result != ncclSuccess) return host.say(result);
  std::string said = seat_of(host, child);
  if (child != nullptr) host.CommDestroy(child);
  return said;
}

TEST(Split, OrdersByKeyThenRankWithinAColor) {
  const Host host;
  const Clique clique(host, 5);
  const std::vector<int> colors{0, 1, 0, 1, NCCL_SPLIT_NOCOLOR};
  const std::vector<int> keys{2, 5, 1, 5, 0};
  EXPECT_EQ(in_threads(5,
                       [&](int rank) {
                         const auto i = static_cast<std::size_t>(rank);
                         return split_and_tell(host, clique[rank], colors[i], keys[i]);
                       }),
            (Texts{"1 of 2 = 2", "0 of 2 = 2", "0 of 2 = 2", "1 of 2 = 2", "none"}));
}

TEST(Split, WorksBetweenProcessesAndAgainOnTheChild) {
  const Host host;
  const ncclUniqueId id = host.id();
  ForkedRanks ranks(4, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 4);
    if (joined.said != "ok") return joined.said;
    ncclComm_t child = nullptr;
    if (host.CommSplit(joined.comm, rank % 2, -rank, &child, nullptr) != ncclSuccess) {
      return host.text();
    }
    std::string said = seat_of(host, child) + "; " + split_and_tell(host, child, rank, 0);
    host.CommDestroy(child);
    host.CommDestroy(joined.comm);
    return said;
  });
  EXPECT_EQ(ranks.answers(), (Texts{"1 of 2 = 2; 0 of 1 = 1", "1 of 2 = 2; 0 of 1 = 1",
                                    "0 of 2 = 2; 0 of 1 = 1", "0 of 2 = 2; 0 of 1 = 1"}));
}

TEST(Split, ManyTimesInARow) {
  const Host host;
  const Clique clique(host, 3);
  EXPECT_EQ(in_threads(3,
                       [&](int rank) {
                         for (int i = 0; i < 40; ++i) {
                           const std::string said = split_and_tell(host, clique[rank], 0, rank);
                           if (said != std::to_string(rank) + " of 3 = 3") return said;
                         }
                         return std::string("all");
                       }),
            same(3, "all"));
}

TEST(Split, WithAWrongColorOnOneRankFailsOnAll) {  // case C12
  const Host host;
  const Clique clique(host, 3);
  const Texts said = in_threads(
      3, [&](int rank) { return split_and_tell(host, clique[rank], rank == 1 ? -5 : 0, 0); });
  const std::string reason = "color is -5, must not be negative, or NCCL_SPLIT_NOCOLOR (-1)";
  EXPECT_EQ(said, (Texts{"6 ncclCommSplit: rank 1 failed: " + reason, "4 ncclCommSplit: " + reason,
                         "6 ncclCommSplit: rank 1 failed: " + reason}));
}

TEST(Split, NamesTheRankThatDoesNotCall) {
  Options options;
  options.timeout_ns = 1'000'000'000;
  const Host host(options);
  const Clique clique(host, 2);
  EXPECT_EQ(
      split_and_tell(host, clique[0], 0, 0),
      "6 ncclCommSplit: rank 1 did not call in time (1 s); all ranks must make the same calls "
      "in the same order");
}

TEST(Split, NonBlockingIsPolledOnChildAndParent) {
  const Host host;
  const ncclUniqueId id = host.id();
  const Texts said = in_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t parent = nullptr;
    ncclComm_t child = nullptr;
    const auto settle = [&](ncclComm_t comm) {
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress && host.CommGetAsyncError(comm, &state) == ncclSuccess) {
        ::poll(nullptr, 0, 1);
      }
      return state;
    };
    host.CommInitRankConfig(&parent, 2, id, rank, &config);
    if (settle(parent) != ncclSuccess) return host.text();
    if (host.CommSplit(parent, 0, -rank, &child, nullptr) != ncclInProgress) return host.text();
    if (settle(parent) != ncclSuccess || settle(child) != ncclSuccess) return host.text();
    std::string seat = seat_of(host, child);
    host.CommDestroy(child);
    host.CommDestroy(parent);
    return seat;
  });
  EXPECT_EQ(said, (Texts{"1 of 2 = 2", "0 of 2 = 2"}));
}

TEST(Split, InAGroupOfOneThread) {
  const Host host;
  const Clique clique(host, 2);
  std::vector<ncclComm_t> children(2);
  host.GroupStart();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(
        host.CommSplit(clique[rank], 7, rank, &children[static_cast<std::size_t>(rank)], nullptr),
        ncclSuccess);
  }
  EXPECT_EQ(host.say(host.GroupEnd()), "ok");
  int count = 0;
  EXPECT_EQ(host.CommCount(children[1], &count), ncclSuccess);
  EXPECT_EQ(count, 2);
  for (const ncclComm_t child : children) host.CommDestroy(child);
}

TEST(Shrink, LeavesOutRanksThatDoNotCall) {
  const Host host;
  const Clique clique(host, 4);
  const Texts said = in_threads(4, [&](int rank) -> std::string {
    if (rank == 1) return "left out";
    std::vector<int> out{1, 1};
    ncclComm_t child = nullptr;
    const ncclResult_t result = host.CommShrink(clique[rank], out.data(), 2, &child, nullptr, 0);
    if (result != ncclSuccess) return host.say(result);
    std::string seat = seat_of(host, child);
    host.CommDestroy(child);
    return seat;
  });
  EXPECT_EQ(said, (Texts{"0 of 3 = 3", "left out", "1 of 3 = 3", "2 of 3 = 3"}));
}

TEST(Shrink, AfterADeathGoesOnWithTheSurvivors) {  // case C14
  const Host host;
  const ncclUniqueId id = host.id();
  ForkedRanks ranks(3, [&](int rank) {
    const Joined joined = join_at(host, id, rank, 3);
    if (joined.said != "ok") return joined.said;
    if (rank == 0) ::raise(SIGKILL);
    float value = 1;
    const ncclResult_t broken =
        host.AllReduce(&value, &value, 1, ncclFloat32, ncclSum, joined.comm, nullptr);
    int dead = 0;
    ncclComm_t child = nullptr;
    const ncclResult_t shrunk =
        host.CommShrink(joined.comm, &dead, 1, &child, nullptr, NCCL_SHRINK_ABORT);
    if (shrunk != ncclSuccess) return host.say(shrunk);
    std::string said =
        std::to_string(broken) + "; " + seat_of(host, child) + "; " + seat_of(host, joined.comm);
    host.CommDestroy(child);
    host.CommAbort(joined.comm);
    return said;
  });
  const std::string revoked =
      " of 3 = 5 ncclAllReduce: the communicator was revoked; only split, shrink, abort and "
      "destroy "
      "are left";
  EXPECT_EQ(ranks.answers(20),
            (Texts{"[signal 9]", "6; 0 of 2 = 2; 1" + revoked, "6; 1 of 2 = 2; 2" + revoked}));
}

TEST(Shrink, WithAbortStopsAHeldOperation) {
  const Host host;
  const Clique clique(host, 2);
  std::string held;
  std::thread thread([&] {
    float value = 1;
    held = host.say(host.AllReduce(&value, &value, 1, ncclFloat32, ncclSum, clique[0], nullptr));
  });
  ::poll(nullptr, 0, 30);
  int other = 1;
  ncclComm_t child = nullptr;
  EXPECT_EQ(host.say(host.CommShrink(clique[0], &other, 1, &child, nullptr, NCCL_SHRINK_ABORT)),
            "ok");
  thread.join();
  EXPECT_EQ(held, "3 ncclAllReduce: this communicator was aborted by its own rank 0");
  EXPECT_EQ(seat_of(host, child), "0 of 1 = 1");
  host.CommDestroy(child);
}

TEST(Shrink, RefusesWrongListsAndFlags) {
  const Host host;
  const Clique clique(host, 2);
  ncclComm_t child = nullptr;
  std::vector<int> ranks{0};
  const auto shrink = [&](int* list, int count, int flags) {
    return host.say(host.CommShrink(clique[0], list, count, &child, nullptr, flags));
  };
  EXPECT_EQ(shrink(nullptr, 1, 0), "4 ncclCommShrink: excludeRanksList is NULL");
  EXPECT_EQ(shrink(ranks.data(), 0, 0),
            "4 ncclCommShrink: excludeRanksCount is 0, must be at least 1");
  EXPECT_EQ(
      shrink(ranks.data(), 1, 0),
      "4 ncclCommShrink: excludeRanksList[0] is 0, which is this rank; a rank that is left out "
      "must not call");
  ranks[0] = 2;
  EXPECT_EQ(
      shrink(ranks.data(), 1, 0),
      "4 ncclCommShrink: excludeRanksList[0] is 2, must be a rank of the communicator: 0 to 1");
  ranks[0] = 1;
  EXPECT_EQ(shrink(ranks.data(), 1, 2),
            "4 ncclCommShrink: shrinkFlags is 2, must be NCCL_SHRINK_DEFAULT (0) or "
            "NCCL_SHRINK_ABORT (1)");
  EXPECT_EQ(host.say(host.CommShrink(clique[0], ranks.data(), 1, nullptr, nullptr, 0)),
            "4 ncclCommShrink: newcomm is NULL, must point to an ncclComm_t");
}

TEST(Grow, AddsRanksToThoseThatExist) {
  const Host host;
  const Clique clique(host, 2);
  ncclUniqueId id{};
  ASSERT_EQ(host.CommGetUniqueId(clique[1], &id), ncclSuccess);
  ncclUniqueId second{};
  EXPECT_EQ(host.say(host.CommGetUniqueId(clique[1], &second)),
            "5 ncclCommGetUniqueId: the id of an earlier call has not been used yet; pass it to "
            "ncclCommGrow first");
  const Texts said = in_threads(4, [&](int rank) {
    ncclComm_t grown = nullptr;
    const bool exists = rank < 2;
    const ncclResult_t result =
        host.CommGrow(exists ? clique[rank] : nullptr, 4, rank == 0 ? nullptr : &id,
                      exists ? -1 : rank, &grown, nullptr);
    if (result != ncclSuccess) return host.say(result);
    std::string seat = seat_of(host, grown);
    host.CommDestroy(grown);
    return seat;
  });
  EXPECT_EQ(said, (Texts{"0 of 4 = 4", "1 of 4 = 4", "2 of 4 = 4", "3 of 4 = 4"}));
  EXPECT_EQ(host.CommGetUniqueId(clique[1], &second), ncclSuccess) << "the first is used up";
}

TEST(Grow, RefusesWhatCannotBe) {
  const Host host;
  const Clique clique(host, 2);
  ncclComm_t grown = nullptr;
  EXPECT_EQ(host.say(host.CommGrow(clique[0], 2, nullptr, -1, &grown, nullptr)),
            "4 ncclCommGrow: nRanks is 2, must be more than the 2 that exist");
  EXPECT_EQ(host.say(host.CommGrow(clique[0], 3, nullptr, 0, &grown, nullptr)),
            "4 ncclCommGrow: rank is 0, must be -1 on ranks that exist already");
  EXPECT_EQ(host.say(host.CommGrow(nullptr, 3, nullptr, 2, &grown, nullptr)),
            "4 ncclCommGrow: uniqueId is NULL, and so is comm");
  EXPECT_EQ(host.say(host.CommGrow(clique[0], 3, nullptr, -1, nullptr, nullptr)),
            "4 ncclCommGrow: newcomm is NULL, must point to an ncclComm_t");
}

TEST(Grow, WithoutAnyIdFailsOnAllExistingRanks) {
  const Host host;
  const Clique clique(host, 2);
  EXPECT_EQ(
      in_threads(2,
                 [&](int rank) {
                   ncclComm_t grown = nullptr;
                   return host.say(host.CommGrow(clique[rank], 3, nullptr, -1, &grown, nullptr));
                 }),
      same(2,
           "5 ncclCommGrow: no existing rank passes the unique id; the one that called "
           "ncclCommGetUniqueId must"));
}

}  // namespace
}  // namespace sabot::comm
