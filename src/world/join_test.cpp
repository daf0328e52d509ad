// Rendezvous between processes and threads: worlds that come together, and every way in which they
// do not.
//
// Ranks are forked processes that answer with a text. The id is made in the test's own process,
// which is not a rank, unless the test is about that.
#include "world/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <mutex>
#include <regex>
#include <thread>

#include "world/forked_ranks.hpp"
#include "world/rendezvous.hpp"

namespace sabot::world {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

UniqueId make_id(std::uint64_t timeout_ns = 60 * kSecond) {
  ServeOptions options;
  options.api_version = 23007;
  options.timeout_ns = timeout_ns;
  return open_rendezvous(options).value();
}

JoinRequest as_rank(int rank, int ranks) {
  JoinRequest request;
  request.rank = rank;
  request.ranks = ranks;
  request.api_version = 23007;
  request.timeout_ns = 60 * kSecond;
  return request;
}

std::string outcome(Result<Membership> joined) {
  if (!joined.ok()) return joined.error().message();
  const Status confirmed = joined->confirm({});
  return confirmed.ok() ? "joined" : confirmed.error().message();
}

std::string without_pids(const std::string& text) {
  return std::regex_replace(text, std::regex("pid [0-9]+"), "pid N");
}
std::vector<std::string> without_pids(std::vector<std::string> texts) {
  for (std::string& text : texts) text = without_pids(text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Join, BringsForkedProcessesTogetherAndTellsEveryoneWhoIsThere) {
  const UniqueId id = make_id();
  ForkedRanks ranks(3, [&](int rank) -> std::string {
    Result<Membership> joined = join(id, as_rank(rank, 3));
    if (!joined.ok()) return joined.error().message();
    const Status confirmed = joined->confirm({});
    if (!confirmed.ok()) return confirmed.error().message();
    std::string pids;
    for (const Life& life : joined->members()) pids += std::to_string(life.pid()) + " ";
    return pids;
  });
  std::string pids;
  for (int rank = 0; rank < 3; ++rank) pids += std::to_string(ranks.pid(rank)) + " ";
  EXPECT_EQ(ranks.answers(), (Texts{pids, pids, pids}));
}

TEST(Join, HandsTheDescriptorOfRankZeroToEveryRank) {
  const UniqueId id = make_id();
  ForkedRanks ranks(2, [&](int rank) -> std::string {
    JoinRequest request = as_rank(rank, 2);
    const Fd file(rank == 0 ? ::memfd_create("gift", 0) : -1);
    if (rank == 0 && ::write(file.get(), "hello", 5) != 5) return "cannot write";
    request.gift = file.get();
    Result<Membership> joined = join(id, request);
    if (!joined.ok()) return joined.error().message();
    std::array<char, 5> text{};
    if (::pread(joined->gift().get(), text.data(), text.size(), 0) != 5) return "cannot read";
    const Status confirmed = joined->confirm({});
    return confirmed.ok() ? std::string(text.data(), text.size()) : confirmed.error().message();
  });
  EXPECT_EQ(ranks.answers(), (Texts{"hello", "hello"}));
}

TEST(Join, WorksForThreadsOfOneProcessThatMadeTheIdItself) {
  const UniqueId id = make_id();
  Texts said(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back(
        [&, rank] { said[static_cast<std::size_t>(rank)] = outcome(join(id, as_rank(rank, 4))); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(said, (Texts{"joined", "joined", "joined", "joined"}));
  // A server in this process must not have cost us our life file.
  ForkedRanks child(1, [&, own = own_life().value()->fd](int) {
    const Life parent = Life::of_peer(::getppid(), 1, Fd(::dup(own)));
    return std::string(parent.is_alive() ? "alive" : "dead");
  });
  EXPECT_EQ(child.answers().at(0), "alive");
}

TEST(Join, ByRankZeroThatMakesTheIdInAChildAndPipesItToTheOthers) {
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& ends : pipes) ASSERT_EQ(::pipe(ends.data()), 0);
  ForkedRanks ranks(3, [&](int rank) -> std::string {
    UniqueId id;
    if (rank == 0) {
      id = make_id();
      for (auto& ends : pipes) {
        if (::write(ends[1], id.bytes.data(), id.bytes.size()) != 128) return "cannot write";
      }
    } else {
      const int from = pipes[static_cast<std::size_t>(rank - 1)][0];
      if (::read(from, id.bytes.data(), id.bytes.size()) != 128) return "cannot read";
    }
    return outcome(join(id, as_rank(rank, 3)));
  });
  EXPECT_EQ(ranks.answers(), (Texts{"joined", "joined", "joined"}));
  for (auto& ends : pipes) {
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST(Join, WithOneNumberTwiceFailsOnEveryRankWithBothProcesses) {
  const UniqueId id = make_id();
  ForkedRanks ranks(3,
                    [&](int rank) { return outcome(join(id, as_rank(rank == 2 ? 1 : rank, 3))); });
  const Texts said = without_pids(ranks.answers());
  const std::string reason =
      "rank 1 came twice, from pid N and from pid N; give every rank its own number";
  EXPECT_EQ(said, (Texts{"joining as rank 0 of 3: " + reason, "joining as rank 1 of 3: " + reason,
                         "joining as rank 1 of 3: " + reason}));
}

TEST(Join, WithDifferentNumbersOfRanksFailsOnEveryRankWithBothNumbers) {
  const UniqueId id = make_id();
  ForkedRanks ranks(2,
                    [&](int rank) { return outcome(join(id, as_rank(rank, rank == 0 ? 2 : 3))); });
  for (const std::string& text : without_pids(ranks.answers())) {
    EXPECT_THAT(text, ::testing::AnyOf(
                          ::testing::HasSubstr("rank 0 (pid N) expects 2 ranks, but rank 1 (pid N) "
                                               "expects 3; pass the same nranks on every rank"),
                          ::testing::HasSubstr("rank 1 (pid N) expects 3 ranks, but rank 0 (pid N) "
                                               "expects 2; pass the same nranks on every rank")));
  }
}

TEST(Join, OutOfRangeFailsOnEveryRank) {
  const UniqueId id = make_id();
  ForkedRanks ranks(2, [&](int rank) { return outcome(join(id, as_rank(rank == 0 ? 0 : 7, 2))); });
  const std::string reason = "rank 7 (pid N) is out of range; ranks are 0 to 1";
  EXPECT_EQ(without_pids(ranks.answers()),
            (Texts{"joining as rank 0 of 2: " + reason, "joining as rank 7 of 2: " + reason}));
}

TEST(Join, WithAnotherVersionOfTheApiNamesBoth) {
  const UniqueId id = make_id();
  ForkedRanks ranks(2, [&](int rank) {
    JoinRequest request = as_rank(rank, 2);
    if (rank == 1) request.api_version = 22809;
    return outcome(join(id, request));
  });
  const std::string reason =
      "rank 1 (pid N) uses NCCL version 2.28.9, but the unique id was made with 2.30.7; load the "
      "same "
      "library on every rank";
  EXPECT_EQ(without_pids(ranks.answers()),
            (Texts{"joining as rank 0 of 2: " + reason, "joining as rank 1 of 2: " + reason}));
}

TEST(Join, NamesTheRanksThatNeverCame) {
  const UniqueId id = make_id(kSecond / 2);
  ForkedRanks ranks(2, [&](int rank) { return outcome(join(id, as_rank(rank, 4))); });
  const std::string reason =
      "rank 2, rank 3 of 4 did not come within 0.5 s; see whether they started and reached "
      "ncclCommInitRank";
  EXPECT_EQ(ranks.answers(),
            (Texts{"joining as rank 0 of 4: " + reason, "joining as rank 1 of 4: " + reason}));
}

TEST(Join, EndsOnEveryRankWhenOneReportsThatItFailed) {
  const UniqueId id = make_id();
  ForkedRanks ranks(3, [&](int rank) -> std::string {
    if (rank == 2) {
      report_failure(id, as_rank(2, 3), Error(Code::kSystem, "no memory"));
      return "reported";
    }
    return outcome(join(id, as_rank(rank, 3)));
  });
  const std::string reason = "rank 2 (pid N) failed to join: no memory";
  EXPECT_EQ(without_pids(ranks.answers()),
            (Texts{"joining as rank 0 of 3: " + reason, "joining as rank 1 of 3: " + reason,
                   "reported"}));
}

TEST(Join, EndsOnEveryRankWhenOneFailsItsOwnPreparations) {
  const UniqueId id = make_id();
  ForkedRanks ranks(2, [&](int rank) -> std::string {
    Result<Membership> joined = join(id, as_rank(rank, 2));
    if (!joined.ok()) return joined.error().message();
    const Status mine =
        rank == 1 ? Status(Error(Code::kSystem, "cannot map the segment")) : Status();
    const Status all = joined->confirm(mine);
    return all.ok() ? "started" : all.error().message();
  });
  EXPECT_EQ(without_pids(ranks.answers()),
            (Texts{"starting as rank 0 of 2: rank 1 (pid N) failed to join: cannot map the segment",
                   "cannot map the segment"}));
}

TEST(Join, EndsOnEveryRankWhenOneDies) {
  const UniqueId id = make_id();
  ForkedRanks ranks(3, [&](int rank) -> std::string {
    Result<Membership> joined = join(id, as_rank(rank, 3));
    if (!joined.ok()) return joined.error().message();
    if (rank == 1) ::raise(SIGKILL);
    const Status all = joined->confirm({});
    return all.ok() ? "started" : all.error().message();
  });
  const std::string reason = "rank 1 (pid N) left during initialisation; look at its own output";
  EXPECT_EQ(without_pids(ranks.answers()),
            (Texts{"starting as rank 0 of 3: " + reason, "[signal 9]",
                   "starting as rank 2 of 3: " + reason}));
}

TEST(Join, WithAnIdWhoseMakerIsGoneSaysSo) {
  UniqueId id;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ForkedRanks maker(1, [&](int) {
    id = make_id();
    return std::string(id.bytes.data(), id.bytes.size());
  });
  const std::string bytes = maker.answers().at(0);
  ASSERT_EQ(bytes.size(), kUniqueIdBytes);
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  const std::string text = std::regex_replace(outcome(join(id, as_rank(0, 2))),
                                              std::regex("127.0.0.1:[0-9]+"), "127.0.0.1:P");
  EXPECT_EQ(
      without_pids(text),
      "joining as rank 0 of 2: nobody listens at 127.0.0.1:P, where the unique id points: its "
      "maker (pid N) has ended, or the id has served a communicator already; make a new id for "
      "every communicator");
}

TEST(Join, ASecondTimeWithTheSameIdIsRefused) {
  const UniqueId id = make_id();
  EXPECT_EQ(outcome(join(id, as_rank(0, 1))), "joined");
  EXPECT_THAT(outcome(join(id, as_rank(0, 1))),
              ::testing::HasSubstr("the id has served a communicator already"));
}

TEST(Join, IsEndedByItsInterruption) {
  const UniqueId id = make_id();
  JoinRequest request = as_rank(0, 2);
  request.interruption = [] {
    return Status(Error(Code::kAborted, "the communicator was aborted"));
  };
  EXPECT_EQ(outcome(join(id, request)), "joining as rank 0 of 2: the communicator was aborted");
}

TEST(Join, ByNameNeedsNoIdAndWaitsForTheOneWhoOpens) {
  const WorldName name{0x1111, ::getpid() + 0x2222ull};
  ForkedRanks ranks(3, [&](int rank) -> std::string {
    if (rank == 2) {
      ServeOptions options;
      options.api_version = 23007;
      const Status opened = open_named_rendezvous(name, 3, options);
      if (!opened.ok()) return opened.error().message();
    }
    return outcome(join_named(name, as_rank(rank, 3)));
  });
  EXPECT_EQ(ranks.answers(), (Texts{"joined", "joined", "joined"}));
}

TEST(Join, ByNameInThreadsKeepsTheProcessAliveForItsPeers) {
  const WorldName name{0x3333, ::getpid() + 0x4444ull};
  ServeOptions options;
  options.api_version = 23007;
  ASSERT_TRUE(open_named_rendezvous(name, 2, options).ok());
  Texts said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      JoinRequest request = as_rank(rank, 2);
      const Fd gift(rank == 0 ? ::memfd_create("gift", 0) : -1);
      request.gift = gift.get();
      said[static_cast<std::size_t>(rank)] = outcome(join_named(name, request));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(said, (Texts{"joined", "joined"}));
  ForkedRanks child(1, [&, own = own_life().value()->fd](int) {
    const Life parent = Life::of_peer(::getppid(), 1, Fd(::dup(own)));
    return std::string(parent.is_alive() ? "alive" : "dead");
  });
  EXPECT_EQ(child.answers().at(0), "alive");
}

TEST(Join, SixtyFourRanksInThreadsOfTwoProcesses) {
  const UniqueId id = make_id();
  ForkedRanks processes(2, [&](int process) -> std::string {
    int joined = 0;
    std::vector<std::thread> threads;
    std::mutex mutex;
    for (int i = 0; i < 32; ++i) {
      threads.emplace_back([&, rank = process * 32 + i] {
        const bool ok = outcome(join(id, as_rank(rank, 64))) == "joined";
        const std::lock_guard<std::mutex> lock(mutex);
        joined += ok ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::to_string(joined);
  });
  EXPECT_EQ(processes.answers(), (Texts{"32", "32"}));
}

TEST(Discard, EndsTheRendezvous) {
  const UniqueId id = make_id();
  discard(id);
  EXPECT_THAT(outcome(join(id, as_rank(0, 1))), ::testing::HasSubstr("nobody listens at"));
}

}  // namespace
}  // namespace sabot::world
