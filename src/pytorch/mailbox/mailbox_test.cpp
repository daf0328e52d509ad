// The mailbox on the real engine: ranks as threads or processes, waiting callers, the mailbox's own
// thread, and how it all ends. What is matched with what is tested in messages_test.cpp.
#include "pytorch/mailbox/mailbox.hpp"

#include <poll.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <numeric>

#include "comm/host_fixture.hpp"

namespace sabot::pytorch {
namespace {

using comm::Clique;
using comm::Host;
using comm::in_threads;
using comm::same;
using comm::Texts;

const Host& host() {
  static const Host engine;
  return engine;
}

ByteChannels engine_channels() {
  ByteChannels channels;
  channels.put = sabot_channel_put;
  channels.take = sabot_channel_take;
  channels.wait_begin = sabot_wait_begin;
  channels.wait_pause = sabot_wait_pause;
  channels.wait_end = sabot_wait_end;
  channels.async_error = [](ncclComm_t comm, ncclResult_t* state) {
    return host().CommGetAsyncError(comm, state);
  };
  channels.last_error = [](ncclComm_t) -> const char* { return host().GetLastError(nullptr); };
  return channels;
}

std::unique_ptr<Mailbox> mailbox_on(ncclComm_t comm, int rank, int size) {
  return std::make_unique<Mailbox>(comm, rank, size, nullptr, engine_channels());
}

// The mailboxes of all ranks of a communicator in this process.
class Post {
 public:
  explicit Post(int ranks) : clique_(host(), ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      boxes_.push_back(mailbox_on(clique_[rank], rank, ranks));
  }
  Mailbox& operator[](int rank) { return *boxes_[static_cast<std::size_t>(rank)]; }
  ncclComm_t comm(int rank) const { return clique_[rank]; }
  void end(int rank) { boxes_[static_cast<std::size_t>(rank)].reset(); }

 private:
  Clique clique_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;
};

using Ints = std::vector<int>;

std::span<const std::byte> sent(const Ints& values) { return std::as_bytes(std::span(values)); }
std::span<std::byte> got(Ints& values) { return std::as_writable_bytes(std::span(values)); }
Ints numbers(std::size_t count, int first) {
  Ints values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string say(const Delivery& delivery) {
  if (delivery.kind != Delivery::Kind::kDone) return Host::plain(delivery.text);
  return delivery.source < 0 ? "ok" : "ok from " + std::to_string(delivery.source);
}

// How a message ended, for another thread to look at.
class Outcome {
 public:
  Delivered delivered() {
    return [this](const Delivery& delivery) {
      delivery_ = delivery;
      is_over_.store(true);
    };
  }
  bool is_over() const { return is_over_.load(); }
  // Looks on while somebody else moves it.
  std::string await() const {
    for (int i = 0; i < 20'000 && !is_over(); ++i) ::poll(nullptr, 0, 1);
    return said();
  }
  std::string said() const { return is_over() ? say(delivery_) : "open"; }

 private:
  Delivery delivery_;
  std::atomic<bool> is_over_{false};
};

std::uint64_t in_ms(std::uint64_t ms) { return Mailbox::now_ns() + ms * 1'000'000; }

TEST(Mailbox, CarriesMessagesBothWaysBetweenCallersThatWait) {
  Post post(2);
  const Texts said = in_threads(2, [&](int rank) -> std::string {
    for (int i = 0; i < 2000; ++i) {
      Ints value{i};
      const auto forth = [&] {
        return rank == 0 ? post[0].send_now({1, i % 3}, sent(value))
                         : post[1].recv_now({0, i % 3}, got(value));
      };
      const auto back = [&] {
        return rank == 1 ? post[1].send_now({0, 9}, sent(value))
                         : post[0].recv_now({1, 9}, got(value));
      };
      if (rank == 1) value[0] = -1;
      const std::string first = say(forth());
      if (first != (rank == 0 ? "ok" : "ok from 0") || value[0] != i) return "forth: " + first;
      ++value[0];
      const std::string second = say(back());
      if (second != (rank == 1 ? "ok" : "ok from 1") || value[0] != i + 1) return "back: " + second;
    }
    return "ok";
  });
  EXPECT_EQ(said, same(2, "ok"));
}

TEST(Mailbox, MovesLargeMessagesBothWaysAtOnceWhileNobodyWaits) {
  Post post(2);
  constexpr std::size_t kCount = 3'000'000;
  const Ints out[2] = {numbers(kCount, 1), numbers(kCount, -7)};
  Ints in[2] = {Ints(kCount), Ints(kCount)};
  Outcome sends[2], recvs[2];
  for (int rank = 0; rank < 2; ++rank) {
    post[rank].send({1 - rank, 1}, sent(out[rank]), sends[rank].delivered());
    post[rank].recv({1 - rank, 1}, got(in[rank]), recvs[rank].delivered());
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(sends[rank].await() + ", " + recvs[rank].await(),
              "ok, ok from " + std::to_string(1 - rank));
    EXPECT_TRUE(in[rank] == out[1 - rank]);
  }
}

TEST(Mailbox, OfAWaitingCallerMovesWhatOthersHaveStarted) {
  Post post(3);
  const Texts said = in_threads(3, [&](int rank) -> std::string {
    Ints large = numbers(1'000'000, rank);
    if (rank == 2) {
      // Takes from 0 first what 0 can send only if it moves its message to 1 meanwhile.
      Ints token(1), from_one(1'000'000);
      std::string text = say(post[2].recv_now({1, 0}, got(from_one)));
      return text + ", " + say(post[2].send_now({0, 0}, sent(token)));
    }
    if (rank == 1) {
      Ints from_zero(1'000'000);
      std::string text = say(post[1].recv_now({0, 0}, got(from_zero)));
      return text + ", " + say(post[1].send_now({2, 0}, sent(from_zero)));
    }
    Outcome to_one;
    post[0].send({1, 0}, sent(large), to_one.delivered());
    Ints token(1);
    std::string text = say(post[0].recv_now({2, 0}, got(token)));
    return text + ", " + to_one.said();
  });
  EXPECT_EQ(said, (Texts{"ok from 2, ok", "ok from 0, ok", "ok from 1, ok"}));
}

TEST(Mailbox, WaitsForAConditionOfTheCallersOwnUntilADeadline) {
  Post post(2);
  Ints value{0}, answer{5};
  Outcome outcome;
  post[0].recv({1, 0}, got(value), outcome.delivered());
  EXPECT_FALSE(post[0].wait([&] { return outcome.is_over(); }, in_ms(20)));
  post[1].send({0, 0}, sent(answer), nullptr);
  EXPECT_TRUE(post[0].wait([&] { return outcome.is_over(); }, in_ms(20'000)));
  EXPECT_EQ(outcome.said(), "ok from 1");
  EXPECT_EQ(value[0], 5);
}

TEST(Mailbox, ServesManyWaitingThreadsOfOneRank) {
  Post post(2);
  constexpr int kThreads = 4;
  const Texts said = in_threads(2 * kThreads, [&](int thread) -> std::string {
    const int rank = thread % 2;
    const int tag = thread / 2;
    for (int i = 0; i < 200; ++i) {
      Ints value{i * 10 + tag}, other{-1};
      Outcome outcome;
      post[rank].send({1 - rank, tag}, sent(value), outcome.delivered());
      const std::string text = say(post[rank].recv_now({1 - rank, tag}, got(other)));
      if (text != "ok from " + std::to_string(1 - rank) || other != value) return text;
      post[rank].wait([&] { return outcome.is_over(); });
    }
    return "ok";
  });
  EXPECT_EQ(said, same(2 * kThreads, "ok"));
}

TEST(Mailbox, TakesFromAnyRankOncePerMessage) {
  Post post(4);
  const Texts said = in_threads(4, [&](int rank) -> std::string {
    if (rank != 3) {
      for (int i = 0; i < 50; ++i) {
        const Delivery delivery = post[rank].send_now({3, 2}, sent(Ints{rank * 100 + i}));
        if (delivery.kind != Delivery::Kind::kDone) return say(delivery);
      }
      return "ok";
    }
    int next[3] = {0, 100, 200};
    for (int i = 0; i < 150; ++i) {
      Ints value{-1};
      const Delivery delivery = post[3].recv_now({kAnySource, 2}, got(value));
      if (delivery.kind != Delivery::Kind::kDone) return say(delivery);
      if (value[0] != next[delivery.source]++) return "out of order";
    }
    return "ok";
  });
  EXPECT_EQ(said, same(4, "ok"));
}

double cpu_seconds() {
  timespec spent;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

TEST(Mailbox, CostsNextToNothingWhileAMessageIsLateAndNothingAfterTheLast) {
  Post post(2);
  Ints value{0};
  Outcome outcome;
  post[0].recv({1, 0}, got(value), outcome.delivered());
  ::poll(nullptr, 0, 50);
  double before = cpu_seconds();
  ::poll(nullptr, 0, 200);
  EXPECT_LT(cpu_seconds() - before, 0.02);
  post[1].send({0, 0}, sent(value), nullptr);
  EXPECT_EQ(outcome.await(), "ok from 1");
  ::poll(nullptr, 0, 100);
  before = cpu_seconds();
  ::poll(nullptr, 0, 200);
  EXPECT_LT(cpu_seconds() - before, 0.002);
  // And it wakes up again.
  Outcome later;
  post[0].recv({1, 0}, got(value), later.delivered());
  post[1].send({0, 0}, sent(value), nullptr);
  EXPECT_EQ(later.await(), "ok from 1");
}

TEST(Mailbox, ClearsAwayWhatAWaitingCallerCouldNotTake) {
  Post post(2);
  const Texts said = in_threads(2, [&](int rank) -> std::string {
    Ints large = numbers(1'000'000, 0);
    if (rank == 0) return say(post[0].send_now({1, 4}, sent(large)));
    Ints small(2);
    return say(post[1].recv_now({0, 4}, got(small)));
  });
  EXPECT_EQ(said,
            (Texts{"ok",
                   "rank 0 sends 4000000 bytes of type 0 with tag 4 to rank 1, which receives "
                   "8 bytes of type 0 from it"}));
}

TEST(Mailbox, EndsAMessageAtItsDeadline) {
  Post post(2);
  Ints value{0};
  const Delivery late = post[0].recv_now({1, 7, 0, in_ms(50)}, got(value));
  EXPECT_EQ(late.kind, Delivery::Kind::kTimeout);
  EXPECT_THAT(late.text, testing::MatchesRegex("receiving 4 bytes with tag 7 from rank 1 timed out "
                                               "after [0-9]+ ms; 0 bytes had moved"));
  const Ints large(1'000'000);
  Outcome outcome;
  post[0].send({1, 7, 0, in_ms(50)}, sent(large), outcome.delivered());
  EXPECT_THAT(outcome.await(), testing::MatchesRegex("sending 4000000 bytes with tag 7 to rank 1 "
                                                     "timed out after [0-9]+ ms; [0-9]+ bytes had "
                                                     "moved"));
}

TEST(MailboxEnd, AbortReleasesWaitingCallersAndStands) {
  Post post(2);
  Ints value{0};
  std::thread aborter([&] {
    ::poll(nullptr, 0, 20);
    post[0].abort("rank 0 has had enough");
  });
  EXPECT_EQ(say(post[0].recv_now({1, 0}, got(value))),
            "receiving 4 bytes with tag 0 from rank 1: rank 0 has had enough");
  aborter.join();
  post[0].abort("again");
  const Delivery later = post[0].send_now({1, 0}, sent(value));
  EXPECT_EQ(say(later), "sending 4 bytes with tag 0 to rank 1: rank 0 has had enough");
  EXPECT_EQ(later.code, ncclInternalError);
}

TEST(MailboxEnd, DestructionTellsThoseWhoseMessagesAreOpen) {
  Post post(2);
  Ints value{0};
  Outcome outcome;
  post[0].recv({1, 0}, got(value), outcome.delivered());
  post.end(0);
  EXPECT_EQ(outcome.said(),
            "receiving 4 bytes with tag 0 from rank 1: the process group was destroyed");
}

TEST(MailboxEnd, MayComeFromADeliveryInItsOwnThread) {
  Post post(2);
  Ints value{0};
  std::atomic<bool> is_gone{false};
  post[0].recv({1, 0}, got(value), [&](const Delivery&) {
    post.end(0);
    is_gone.store(true);
  });
  post[1].send({0, 0}, sent(value), nullptr);
  for (int i = 0; i < 20'000 && !is_gone.load(); ++i) ::poll(nullptr, 0, 1);
  EXPECT_TRUE(is_gone.load());
}

TEST(MailboxEnd, ADeliveryMayStartTheNextMessage) {
  Post post(2);
  Ints values[2] = {Ints{1}, Ints{2}};
  Ints in{0};
  Outcome last;
  post[0].recv({1, 0}, got(in), [&](const Delivery&) {
    post[0].recv({1, 0}, got(in), last.delivered());
  });
  post[1].send({0, 0}, sent(values[0]), nullptr);
  post[1].send({0, 0}, sent(values[1]), nullptr);
  EXPECT_EQ(last.await(), "ok from 1");
  EXPECT_EQ(in[0], 2);
}

TEST(MailboxEnd, AFailureOfTheCommunicatorReachesAllRanksWithItsText) {
  Post post(3);
  const Texts said = in_threads(3, [&](int rank) -> std::string {
    Ints value{0};
    if (rank == 0) {
      sabot_comm_fail(post.comm(0), 2, "rank 2 was too slow");
      return say(post[0].send_now({1, 0}, sent(value)));
    }
    return say(post[rank].recv_now({rank == 1 ? 2 : kAnySource, 0}, got(value)));
  });
  EXPECT_EQ(said, (Texts{"sending 4 bytes with tag 0 to rank 1: rank 2 was too slow",
                         "receiving 4 bytes with tag 0 from rank 2: rank 2 was too slow",
                         "receiving 4 bytes with tag 0 from any rank: rank 2 was too slow"}));
}

TEST(MailboxEnd, AKilledRankIsNamedToAllWhileOneThatLeavesConcernsItsPartners) {
  const ncclUniqueId id = host().id();
  world::ForkedRanks ranks(4, [&](int rank) -> std::string {
    const comm::Joined joined = comm::join_at(host(), id, rank, 4);
    if (joined.said != "ok") return joined.said;
    const auto box = mailbox_on(joined.comm, rank, 4);
    Ints value{rank};
    if (rank == 3) {  // leaves in order, after a message
      box->send_now({0, 1}, sent(value));
      box->close();
      return host().say(host().CommDestroy(joined.comm));
    }
    if (rank == 2) {  // dies once rank 0 says so
      box->recv_now({0, 0}, got(value));
      ::raise(SIGKILL);
    }
    if (rank == 1) return say(box->recv_now({0, 0}, got(value)));
    std::string text = say(box->recv_now({3, 1}, got(value)));
    text += "; " + say(box->recv_now({3, 1}, got(value)));
    box->send_now({2, 0}, sent(value));
    return text + "; " + say(box->recv_now({kAnySource, 0}, got(value)));
  });
  EXPECT_EQ(
      Texts(ranks.answers()),
      (Texts{"ok from 3; receiving 4 bytes with tag 1 from rank 3: rank 3 destroyed its "
             "communicator; receiving 4 bytes with tag 0 from any rank: rank 2 died (process N "
             "is gone)",
             "receiving 4 bytes with tag 0 from rank 0: rank 2 died (process N is gone)",
             "[signal 9]", "ok"}));
}

TEST(C17Fork, AMailboxOfTheParentIsRefusedInAChildAndGoesOnInTheParent) {
  Post post(2);
  Ints value{0}, out{6};
  Outcome outcome;
  post[0].recv({1, 0}, got(value), outcome.delivered());
  world::ForkedRanks child(1, [&](int) {
    Ints other{1};
    const std::string text = say(post[0].send_now({1, 0}, sent(other)));
    post[0].abort("child");
    post.end(0);
    return text;
  });
  EXPECT_EQ(child.answers(),
            Texts{"sending 4 bytes with tag 0 to rank 1: the process group belongs to the process "
                  "that forked this one; create process groups after fork"});
  post[1].send_now({0, 0}, sent(out));
  EXPECT_EQ(outcome.await(), "ok from 1");
  EXPECT_EQ(value[0], 6);
}

}  // namespace
}  // namespace sabot::pytorch
