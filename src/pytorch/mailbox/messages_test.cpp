// Matching, sizes, time and departures of messages: every small case, random large ones, and the
// subtle ones by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "pytorch/mailbox/fake_channels.hpp"

namespace sabot::pytorch {
namespace {

using Kind = Delivery::Kind;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(int seed, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 31 + i * 7 + i / 251);
  return bytes;
}

// A message of a test, with its buffer and how it ended.
struct Letter {
  Letter() = default;
  explicit Letter(Bytes content) : bytes(std::move(content)) {}

  Bytes bytes;
  bool is_over = false;
  Delivery delivery;
  int order = -1;  // in which it ended

  std::string said() const {
    if (!is_over) return "open";
    if (delivery.kind != Kind::kDone) return delivery.text;
    return "ok" + (delivery.source < 0 ? "" : " from " + std::to_string(delivery.source));
  }
};

// The messages of all ranks, in one thread.
class Post {
 public:
  explicit Post(int ranks, std::size_t capacity = 1 << 20, TypeName name = nullptr)
      : channels(ranks, capacity) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(channels.messages(rank, name));
  }

  Messages& operator[](int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void send(int from, int to, int tag, Letter& letter, int type = 0) {
    start(from, true, to, tag, letter, type);
  }
  void recv(int at, int from, int tag, Letter& letter, int type = 0) {
    start(at, false, from, tag, letter, type);
  }
  // Until nothing moves any more.
  void settle() {
    for (bool moves = true; moves;) {
      moves = false;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) moves |= advance(rank);
    }
  }
  bool advance(int rank) {
    const bool moved = (*this)[rank].advance(now_ms * 1'000'000);
    for (Messages::Ended& one : (*this)[rank].take_ended())
      if (one.message->delivered) one.message->delivered(one.delivery);
    return moved;
  }

  FakeChannels channels;
  std::uint64_t now_ms = 1000;
  std::uint64_t timeout_ms = 0;  // of what is started from now on

 private:
  void start(int rank, bool sends, int peer, int tag, Letter& letter, int type) {
    auto message = std::make_unique<Message>();
    message->sends = sends;
    message->peer = peer;
    message->tag = tag;
    message->type = type;
    message->data = letter.bytes.data();
    message->bytes = letter.bytes.size();
    if (timeout_ms != 0) message->deadline_ns = (now_ms + timeout_ms) * 1'000'000;
    message->delivered = [this, &letter](const Delivery& delivery) {
      EXPECT_FALSE(letter.is_over) << "told twice";
      letter.is_over = true;
      letter.delivery = delivery;
      letter.order = ended_++;
    };
    (*this)[rank].start(std::move(message), now_ms * 1'000'000);
  }

  std::vector<Messages> ranks_;
  int ended_ = 0;
};

// Every sequence of five events of these: rank 0 or 1 sends tag 0 or 1 to rank 2, or rank 2 posts a
// receive of tag 0 or 1 from rank 0, from rank 1, or from any.
class Sequence {
 public:
  static constexpr int kEvents = 10;
  static constexpr int kLength = 5;

  std::string verdict(int code) {
    Post post(3);
    Letter letters[kLength];
    for (Letter& letter : letters) letter.bytes.resize(4);
    for (int i = 0; i < kLength; ++i, code /= kEvents) {
      Event& event = events_[i];
      event = decode(code % kEvents);
      Letter& letter = letters[i];
      if (event.sends) {
        letter.bytes.assign(4, static_cast<std::byte>(i));
        post.send(event.source, 2, event.tag, letter);
      } else {
        letter.bytes.assign(4, std::byte{99});
        post.recv(2, event.source, event.tag, letter);
      }
      post.settle();
      const std::string wrong = check(letters, i + 1);
      if (!wrong.empty()) return name(i + 1) + ": " + wrong;
    }
    return post[2].is_idle() == none_open(letters) ? "" : name(kLength) + ": is_idle() is wrong";
  }

 private:
  struct Event {
    bool sends = false;
    int source = 0;
    int tag = 0;
  };

  static Event decode(int kind) {
    if (kind < 4) return {true, kind / 2, kind % 2};
    return {false, (kind - 4) / 2 == 2 ? kAnySource : (kind - 4) / 2, kind % 2};
  }
  static bool match(const Event& send, const Event& recv) {
    return send.tag == recv.tag && (recv.source == kAnySource || recv.source == send.source);
  }

  // The laws, for the first `count` events.
  std::string check(const Letter* letters, int count) const {
    int taken_by[kLength];  // of a send: the receive that got it
    std::fill(std::begin(taken_by), std::end(taken_by), -1);
    for (int r = 0; r < count; ++r) {
      if (events_[r].sends) {
        if (!letters[r].is_over) return "a send is open";
        continue;
      }
      if (!letters[r].is_over) continue;
      const int s = static_cast<int>(letters[r].bytes[0]);
      if (s >= count || !events_[s].sends || !match(events_[s], events_[r]))
        return "receive " + std::to_string(r) + " got what it did not ask for";
      if (letters[r].delivery.source != events_[s].source) return "the source is wrong";
      if (taken_by[s] >= 0) return "a message was given twice";
      taken_by[s] = r;
    }
    for (int s = 0; s < count; ++s) {
      if (!events_[s].sends) continue;
      for (int r = 0; r < count; ++r) {
        if (events_[r].sends || !match(events_[s], events_[r])) continue;
        if (taken_by[s] < 0 && !letters[r].is_over) return "a message and its receive stay apart";
        if (taken_by[s] <= r) continue;
        if (!letters[r].is_over || letters[r].order > letters[taken_by[s]].order)
          return "a later receive got what an earlier one had asked for";
      }
      for (int later = s + 1; later < count; ++later) {
        const bool same = events_[later].sends && events_[later].source == events_[s].source &&
                          events_[later].tag == events_[s].tag;
        if (!same || taken_by[later] < 0) continue;
        if (taken_by[s] < 0 || letters[taken_by[s]].order > letters[taken_by[later]].order)
          return "messages of one rank and tag overtook each other";
      }
    }
    return "";
  }

  static bool none_open(const Letter* letters) {
    return std::all_of(letters, letters + kLength, [](const Letter& one) { return one.is_over; });
  }

  std::string name(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const std::string source =
          events_[i].source == kAnySource ? "any" : std::to_string(events_[i].source);
      text += (events_[i].sends ? "send " : "recv ") + source + " tag " +
              std::to_string(events_[i].tag) + "; ";
    }
    return text;
  }

  Event events_[kLength];
};

TEST(Matching, KeepsItsLawsInEverySequenceOfFiveEvents) {
  int sequences = 1;
  for (int i = 0; i < Sequence::kLength; ++i) sequences *= Sequence::kEvents;
  for (int code = 0; code < sequences; ++code) {
    const std::string verdict = Sequence().verdict(code);
    ASSERT_EQ(verdict, "") << "sequence " << code;
  }
}

// Many messages of all sizes between four ranks through channels that hold 5000 bytes, posted and
// advanced in random order; all receives name their source, so it is known what each must get.
TEST(Matching, DeliversWhatWasSentInRandomOrderThroughNarrowChannels) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    constexpr int kRanks = 4;
    constexpr int kCount = 150;
    Post post(kRanks, 5000);
    std::vector<Letter> sent(kCount), got(kCount);
    struct Step {
      bool sends;
      int index;
    };
    std::vector<int> from(kCount), to(kCount);
    std::vector<Step> sends, recvs;
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::size_t sizes[] = {0, 1, 32, 33, 4096, 4097, random() % 30'000};
      const std::size_t bytes = sizes[random() % 7];
      sent[at].bytes = bytes_of(i, bytes);
      got[at].bytes.resize(bytes);
      from[at] = static_cast<int>(random() % kRanks);
      to[at] = static_cast<int>(random() % kRanks);
      sends.push_back({true, i});
      recvs.push_back({false, i});
    }
    // Each message has a tag of its own, so receives may be posted in any order.
    std::shuffle(recvs.begin(), recvs.end(), random);
    while (!sends.empty() || !recvs.empty()) {
      const bool sending = recvs.empty() || (!sends.empty() && random() % 2 == 0);
      const int i = sending ? sends.back().index : recvs.back().index;
      const auto at = static_cast<std::size_t>(i);
      (sending ? sends : recvs).pop_back();
      sending ? post.send(from[at], to[at], i, sent[at]) : post.recv(to[at], from[at], i, got[at]);
      for (unsigned n = random() % 4; n > 0; --n) post.advance(static_cast<int>(random() % kRanks));
    }
    post.settle();
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(sent[i].said(), "ok");
      ASSERT_EQ(got[i].said(), "ok from " + std::to_string(from[i]));
      ASSERT_TRUE(got[i].bytes == sent[i].bytes) << "message " << i;
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(post[rank].is_idle());
      EXPECT_EQ(post[rank].held_bytes(), 0U);
    }
  }
}

TEST(Matching, ReadsNothingThatNobodyAsksForAndKeepsOnlyWhatStandsBefore) {
  Post post(3);
  Letter a{bytes_of(1, 100)}, b{bytes_of(2, 200)}, c{bytes_of(3, 300)}, other{bytes_of(4, 8)};
  post.send(0, 1, 1, a);
  post.send(0, 1, 2, b);
  post.send(0, 1, 3, c);
  post.send(2, 1, 1, other);
  post.settle();
  EXPECT_EQ(post.channels.bytes_under_way(0, 1), 3 * 16 + 600U);
  Letter got{Bytes(200)};
  post.recv(1, 0, 2, got);
  post.settle();
  EXPECT_EQ(got.said(), "ok from 0");
  EXPECT_TRUE(got.bytes == b.bytes);
  EXPECT_EQ(post[1].held_bytes(), 100U);
  EXPECT_EQ(post.channels.bytes_under_way(0, 1), 16 + 300U);
  EXPECT_EQ(post.channels.bytes_under_way(2, 1), 16 + 8U);
  Letter first{Bytes(100)};
  post.recv(1, kAnySource, 1, first);
  EXPECT_EQ(post[1].held_bytes(), 0U);
  post.settle();
  EXPECT_EQ(first.said(), "ok from 0");
  EXPECT_TRUE(first.bytes == a.bytes);
}

TEST(Matching, GivesAHeldMessageThatIsStillComingToItsReceive) {
  Post post(2, 5000);
  Letter big{bytes_of(1, 40'000)}, small{bytes_of(2, 4)};
  post.send(0, 1, 1, big);
  post.send(0, 1, 2, small);
  Letter got_small{Bytes(4)}, got_big{Bytes(40'000)};
  post.recv(1, 0, 2, got_small);
  for (int i = 0; i < 3; ++i) {
    post.advance(0);
    post.advance(1);
  }
  EXPECT_EQ(post[1].held_bytes(), 40'000U);
  EXPECT_EQ(big.said(), "open");
  post.recv(1, 0, 1, got_big);
  EXPECT_EQ(post[1].held_bytes(), 0U) << "it goes on straight into the receive's memory";
  post.settle();
  EXPECT_EQ(got_big.said(), "ok from 0");
  EXPECT_TRUE(got_big.bytes == big.bytes);
  EXPECT_EQ(got_small.said(), "ok from 0");
}

TEST(AnySource, TakesFromEveryRankInTurn) {
  Post post(4);
  std::vector<Letter> sent(9, Letter{Bytes(4)});
  for (int i = 0; i < 9; ++i) post.send(i / 3, 3, 0, sent[static_cast<std::size_t>(i)]);
  post.settle();
  std::string sources;
  for (int i = 0; i < 9; ++i) {
    Letter got{Bytes(4)};
    post.recv(3, kAnySource, 0, got);
    post.settle();
    sources += std::to_string(got.delivery.source);
  }
  EXPECT_EQ(sources, "012012012");
}

TEST(Self, CanBeSentTo) {
  Post post(1, 5000);
  Letter sent{bytes_of(1, 30'000)}, got{Bytes(30'000)};
  post.send(0, 0, 5, sent);
  post.recv(0, kAnySource, 5, got);
  post.settle();
  EXPECT_EQ(sent.said() + ", " + got.said(), "ok, ok from 0");
  EXPECT_TRUE(got.bytes == sent.bytes);
}

const char* name_of_type(int type) { return type == 0 ? "int" : "float"; }

TEST(Mismatch, OfTheSizeIsTheReceiversErrorAndEndsNothingElse) {
  for (const std::size_t bytes : {4U, 50'000U}) {
    Post post(2, 5000, name_of_type);
    Letter sent{bytes_of(1, bytes)}, next{bytes_of(2, 8)}, got{Bytes(8, std::byte{7})},
        after{Bytes(8)};
    post.send(0, 1, 3, sent);
    post.send(0, 1, 3, next);
    post.recv(1, 0, 3, got);
    post.settle();
    EXPECT_EQ(got.said(), "rank 0 sends " + std::to_string(bytes) +
                              " bytes of int with tag 3 to rank 1, which receives 8 bytes of int "
                              "from it");
    EXPECT_EQ(got.delivery.kind, Kind::kMismatch);
    EXPECT_EQ(got.delivery.code, ncclInvalidUsage);
    EXPECT_EQ(got.bytes, Bytes(8, std::byte{7})) << "its memory is untouched";
    EXPECT_EQ(sent.said() + ", " + next.said(), "ok, ok") << "what nobody wants is cleared away";
    EXPECT_TRUE(post[1].is_idle());
    post.recv(1, 0, 3, after);
    post.settle();
    EXPECT_EQ(after.said(), "ok from 0");
    EXPECT_TRUE(after.bytes == next.bytes);
  }
}

TEST(Mismatch, OfAHeldMessageIsTheReceiversErrorToo) {
  Post post(2, 5000);
  Letter early{bytes_of(1, 40'000)}, wanted{bytes_of(2, 4)};
  Letter got_wanted{Bytes(4)}, got_early{Bytes(8)};
  post.send(0, 1, 1, early);
  post.send(0, 1, 2, wanted);
  post.recv(1, 0, 2, got_wanted);
  post.advance(0);
  post.advance(1);
  post.recv(1, kAnySource, 1, got_early);
  post.settle();
  EXPECT_EQ(got_early.said(),
            "rank 0 sends 40000 bytes of type 0 with tag 1 to rank 1, which receives 8 bytes of "
            "type 0 from any rank");
  EXPECT_EQ(early.said() + ", " + got_wanted.said(), "ok, ok from 0");
  EXPECT_EQ(post[1].held_bytes(), 0U);
}

TEST(Mismatch, OfTheTypeNamesBoth) {
  Post post(2, 5000, name_of_type);
  Letter sent{Bytes(8)}, got{Bytes(8)};
  post.recv(1, 0, 0, got, 1);
  post.send(0, 1, 0, sent, 0);
  post.settle();
  EXPECT_EQ(got.said(),
            "rank 0 sends 8 bytes of int with tag 0 to rank 1, which receives 8 bytes of float "
            "from it");
  EXPECT_EQ(got.delivery.source, 0);
}

TEST(Deadline, EndsAReceiveThatGetsNothing) {
  Post post(2);
  Letter got{Bytes(8)}, patient{Bytes(8)};
  post.recv(1, 0, 4, patient);
  post.timeout_ms = 500;
  post.recv(1, 0, 3, got);
  post.now_ms += 499;
  post.settle();
  EXPECT_EQ(got.said(), "open");
  post.now_ms += 1;
  post.settle();
  EXPECT_EQ(got.said(),
            "receiving 8 bytes with tag 3 from rank 0 timed out after 500 ms; 0 bytes "
            "had moved");
  EXPECT_EQ(got.delivery.kind, Kind::kTimeout);
  EXPECT_EQ(patient.said(), "open");
}

TEST(Deadline, OfTheSecondOfTwoIsNotForgottenWhenTheFirstIsOver) {
  Post post(2);
  Letter first{Bytes(8)}, second{Bytes(8)};
  post.timeout_ms = 100;
  post.recv(1, 0, 3, first);
  post.timeout_ms = 300;
  post.recv(1, kAnySource, 3, second);
  post.now_ms += 200;
  post.settle();
  EXPECT_NE(first.said(), "open");
  EXPECT_EQ(second.said(), "open");
  post.now_ms += 100;
  post.settle();
  EXPECT_EQ(second.said(),
            "receiving 8 bytes with tag 3 from any rank timed out after 300 ms; 0 "
            "bytes had moved");
}

TEST(Deadline, InTheMiddleOfAReceiveLeavesTheRestToBeClearedAway) {
  Post post(2, 5000);
  Letter sent{bytes_of(1, 40'000)}, next{bytes_of(2, 8)}, got{Bytes(40'000)}, after{Bytes(8)};
  post.send(0, 1, 0, sent);
  post.send(0, 1, 0, next);
  post.timeout_ms = 50;
  post.recv(1, 0, 0, got);
  for (int i = 0; i < 3; ++i) {
    post.advance(0);
    post.advance(1);
  }
  post.now_ms += 50;
  post.advance(1);
  EXPECT_THAT(got.said(), testing::MatchesRegex("receiving 40000 bytes with tag 0 from rank 0 "
                                                "timed out after 50 ms; [1-9][0-9]+ bytes had "
                                                "moved"));
  std::fill(got.bytes.begin(), got.bytes.end(), std::byte{9});
  post.timeout_ms = 0;
  post.recv(1, 0, 0, after);
  post.settle();
  EXPECT_EQ(got.bytes, Bytes(40'000, std::byte{9})) << "its memory is not touched any more";
  EXPECT_EQ(sent.said() + ", " + after.said(), "ok, ok from 0");
  EXPECT_TRUE(after.bytes == next.bytes);
}

TEST(Deadline, InTheMiddleOfASendStillCompletesTheMessageFromACopy) {
  Post post(2, 5000);
  Letter sent{bytes_of(1, 40'000)}, queued{bytes_of(3, 40)}, next{bytes_of(2, 8)};
  Letter got{Bytes(40'000)}, after{Bytes(8)};
  post.timeout_ms = 50;
  post.send(0, 1, 0, sent);
  post.send(0, 1, 0, queued);
  post.timeout_ms = 0;
  post.send(0, 1, 0, next);
  post.advance(0);
  const Bytes original = sent.bytes;
  post.now_ms += 70;
  post.advance(0);
  EXPECT_THAT(sent.said(), testing::MatchesRegex("sending 40000 bytes with tag 0 to rank 1 timed "
                                                 "out after 70 ms; [1-9][0-9]* bytes had moved"));
  EXPECT_EQ(queued.said(),
            "sending 40 bytes with tag 0 to rank 1 timed out after 70 ms; 0 bytes had moved");
  std::fill(sent.bytes.begin(), sent.bytes.end(), std::byte{9});
  EXPECT_FALSE(post[0].is_idle()) << "the rest is still to be sent";
  post.recv(1, 0, 0, got);
  post.recv(1, 0, 0, after);
  post.settle();
  EXPECT_EQ(got.said() + ", " + after.said(), "ok from 0, ok from 0");
  EXPECT_TRUE(got.bytes == original);
  EXPECT_TRUE(after.bytes == next.bytes) << "what had not begun was never sent";
  EXPECT_TRUE(post[0].is_idle());
}

TEST(Departure, EndsWhatDependsOnThatRankAndLeavesTheOthers) {
  Post post(4, 5000);
  Letter last{bytes_of(1, 8)}, to_it{Bytes(9000)}, from_it{Bytes(8)}, got_last{Bytes(8)};
  Letter from_other{Bytes(8)}, from_any{Bytes(8)}, later{Bytes(8)};
  post.send(2, 0, 1, last);
  post.settle();
  post.send(0, 2, 0, to_it);
  post.recv(0, 2, 0, from_it);
  post.recv(0, 2, 1, got_last);
  post.recv(0, 1, 0, from_other);
  post.recv(0, kAnySource, 0, from_any);
  post.channels.leave(2);
  post.advance(0);
  EXPECT_EQ(got_last.said(), "ok from 2") << "what it had sent before counts";
  post.advance(0);
  EXPECT_EQ(from_it.said(),
            "receiving 8 bytes with tag 0 from rank 2: rank 2 destroyed its communicator");
  EXPECT_EQ(from_it.delivery.kind, Kind::kFailed);
  EXPECT_EQ(from_it.delivery.code, ncclRemoteError);
  EXPECT_EQ(to_it.said(),
            "sending 9000 bytes with tag 0 to rank 2: rank 2 destroyed its communicator");
  EXPECT_EQ(from_other.said() + ", " + from_any.said(), "open, open");
  post.recv(0, 2, 0, later);
  post.advance(0);
  EXPECT_EQ(later.said(),
            "receiving 8 bytes with tag 0 from rank 2: rank 2 destroyed its communicator");
}

TEST(Departure, OfTheLastOtherRankEndsReceivesFromAny) {
  Post post(3);
  Letter before{Bytes(8)}, after{Bytes(8)};
  post.recv(0, kAnySource, 0, before);
  post.channels.leave(1);
  post.settle();
  EXPECT_EQ(before.said(), "open");
  post.channels.leave(2);
  post.settle();
  EXPECT_EQ(before.said(),
            "receiving 8 bytes with tag 0 from any rank: no other rank is left that could send: "
            "rank 2 destroyed its communicator");
  post.recv(0, kAnySource, 0, after);
  post.settle();
  EXPECT_EQ(after.said(), before.said());
}

TEST(Departure, InTheMiddleOfAMessageEndsItsReceive) {
  for (const bool is_held : {false, true}) {
    Post post(3, 5000);
    Letter sent{bytes_of(1, 40'000)}, got{Bytes(40'000)}, other{Bytes(4)};
    post.send(2, 0, 1, sent);
    post.recv(0, is_held ? 2 : kAnySource, is_held ? 7 : 1, got);
    post.advance(2);
    post.advance(0);
    post.channels.leave(2);
    post.advance(0);
    EXPECT_THAT(got.said(), testing::EndsWith("rank 2 destroyed its communicator"));
    EXPECT_EQ(post[0].held_bytes(), 0U);
    EXPECT_TRUE(post[0].is_idle());
    post.recv(0, kAnySource, 1, other);
    post.settle();
    EXPECT_EQ(other.said(), "open") << "rank 1 may still send";
  }
}

TEST(Failure, OfTheCommunicatorEndsEverythingForGood) {
  Post post(3, 5000);
  Letter sent{Bytes(20'000)}, from_one{Bytes(8)}, from_any{Bytes(8)}, later{Bytes(8)};
  post.send(0, 1, 0, sent);
  post.recv(0, 1, 0, from_one);
  post.recv(0, kAnySource, 0, from_any);
  post.settle();
  post.channels.fail("rank 2 died");
  post.settle();
  EXPECT_EQ(sent.said(), "sending 20000 bytes with tag 0 to rank 1: rank 2 died");
  EXPECT_EQ(from_one.said(), "receiving 8 bytes with tag 0 from rank 1: rank 2 died");
  EXPECT_EQ(from_any.said(), "receiving 8 bytes with tag 0 from any rank: rank 2 died");
  post[0].fail_all(ncclInternalError, "not the first");
  post.recv(0, 1, 0, later);
  post.settle();
  EXPECT_EQ(later.said(), "receiving 8 bytes with tag 0 from rank 1: rank 2 died");
  EXPECT_TRUE(post[0].is_idle());
}

TEST(Failure, WhileSomethingIsClearedAwayLeavesNothingToDo) {
  Post post(2, 5000);
  Letter sent{Bytes(40'000)}, got{Bytes(8)};
  post.send(0, 1, 0, sent);
  post.recv(1, 0, 0, got);
  post.advance(0);
  post.advance(1);
  ASSERT_EQ(got.delivery.kind, Kind::kMismatch);
  EXPECT_FALSE(post[1].is_idle());
  post[1].fail_all(ncclInternalError, "aborted");
  EXPECT_TRUE(post[1].is_idle());
}

}  // namespace
}  // namespace sabot::pytorch
