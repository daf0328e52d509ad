// The kernel's word on who is alive: kills are seen, forked children do not keep the dead alive.
#include "world/life.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <span>

#include "world/forked_ranks.hpp"
#include "world/join.hpp"
#include "world/socket.hpp"

namespace sabot::world {
namespace {

struct Pair {
  Fd a;
  Fd b;
};
Pair socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// A child that lends its life over the socket, then lives until it is killed.
std::string lend_and_wait(const Fd& socket, bool with_grandchild) {
  const auto own = own_life();
  if (!own.ok()) return own.error().message();
  pid_t grandchild = 0;
  if (with_grandchild) grandchild = ::fork();
  if (with_grandchild && grandchild == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::array<int, 1> fds{(*own)->fd};
  const auto bytes = std::as_bytes(std::span<const pid_t, 1>(&grandchild, 1));
  if (!send_packet(socket.get(), bytes, fds).ok()) return "cannot send";
  ::pause();
  return "woke up";
}

Life borrow(const Fd& socket, pid_t pid, pid_t* grandchild = nullptr) {
  pid_t said = 0;
  const auto bytes = std::as_writable_bytes(std::span<pid_t, 1>(&said, 1));
  Packet packet = receive_packet(socket.get(), bytes).value();
  if (grandchild != nullptr) *grandchild = said;
  return Life::of_peer(pid, 1, std::move(packet.fds.at(0)));
}

bool dies_within(const Life& life, int limit_ms) {
  for (int waited = 0; waited < limit_ms; waited += 5) {
    if (!life.is_alive()) return true;
    ::poll(nullptr, 0, 5);
  }
  return false;
}

TEST(Life, EndsWhenTheProcessIsKilled) {
  const Pair sockets = socket_pair();
  ForkedRanks child(1, [&](int) { return lend_and_wait(sockets.a, false); });
  const Life life = borrow(sockets.b, child.pid(0));
  EXPECT_TRUE(life.is_alive());
  child.kill(0);
  EXPECT_TRUE(dies_within(life, 5000));
  EXPECT_EQ(child.answers().at(0), "[signal 9]");
}

TEST(Life, IsNotProlongedByAForkedChildThatLivesOn) {
  const Pair sockets = socket_pair();
  ForkedRanks child(1, [&](int) { return lend_and_wait(sockets.a, true); });
  pid_t grandchild = 0;
  const Life life = borrow(sockets.b, child.pid(0), &grandchild);
  EXPECT_TRUE(life.is_alive());
  child.kill(0);
  EXPECT_TRUE(dies_within(life, 5000));
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0) << "the grandchild must have been there all the time";
}

TEST(Life, OfThisProcessIsTheSameOnEveryCallAndAlwaysThere) {
  const OwnLife* first = own_life().value();
  EXPECT_EQ(first, own_life().value());
  EXPECT_TRUE(Life::of_this_process(*first).is_alive());
}

TEST(Life, OfAForkedChildIsItsOwn) {
  const ProcessKey mine = own_life().value()->key;
  ForkedRanks child(1, [&](int) {
    const auto own = own_life();
    return std::string(own.ok() && (*own)->key != mine && (*own)->pid == ::getpid() ? "own"
                                                                                    : "shared");
  });
  EXPECT_EQ(child.answers().at(0), "own");
}

TEST(MemberLiveness, NamesTheRankAndTheProcess) {
  const Pair sockets = socket_pair();
  ForkedRanks child(1, [&](int) { return lend_and_wait(sockets.a, false); });
  const pid_t pid = child.pid(0);
  const Life life = borrow(sockets.b, pid);
  MemberLiveness liveness({Life::of_this_process(*own_life().value()), life});
  EXPECT_FALSE(liveness.check().has_value());
  child.kill(0);
  ASSERT_TRUE(dies_within(life, 5000));
  const auto dead = liveness.check();
  ASSERT_TRUE(dead.has_value());
  EXPECT_EQ(dead->rank, 1);
  EXPECT_FALSE(liveness.check_except(1u << 1).has_value());
  EXPECT_EQ(dead->what, "died (process " + std::to_string(pid) + " is gone)");
}

}  // namespace
}  // namespace sabot::world
