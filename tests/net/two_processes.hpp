// Two processes with the network plugin, as ranks 0 and 1 of a job, and what they share.
//
// Each test forks its ranks, so that each has a plugin of its own, opened by dlopen as NCCL does
// it. The test program stands in for libsabot.so: it exports sabot_stack_v1 and answers with the
// rule on the board, which either side may change.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../../products/net/nccl_net.hpp"

namespace sabot::net_test {

using products::net::NetV7;
using products::net::NetV8;

struct Handle {
  char bytes[128];
};

// Memory of all processes of a test.
struct Board {
  static constexpr int kHandles = 512;
  std::array<Handle, kHandles> handles;
  std::atomic<int> handle_count;
  std::atomic<int> step;  // for tests that wait for each other
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint32_t> effects;  // of rank 0's rule, for all its peers
  std::atomic<std::uint64_t> delay_ns, rate, until_ns;
  std::atomic<int> asked_peer[2];  // by rank: the peer of its last question for a rule
  std::atomic<bool> has_sabot;
  char text[2][4096];  // what each rank found wrong, "" = nothing
};
extern Board* board;

// What the plugin logged in this process, oldest first.
std::vector<std::string>& log_lines();
bool was_logged(const std::string& part);

// The plugin in this process. Exits the process with a text where it cannot be opened.
const NetV8& plugin_v8();
const NetV7& plugin_v7();

// Fails this rank with a text; the rank's process ends there.
[[noreturn]] void fail(const std::string& text);
#define REQUIRE(condition)                                                 \
  do {                                                                     \
    if (!(condition))                                                      \
      ::sabot::net_test::fail(std::string(#condition " is false, line ") + \
                              std::to_string(__LINE__));                   \
  } while (false)

std::uint64_t now_ns();
// Asks again until it is true; fails the rank after 20 seconds.
void until(const char* what, const std::function<bool()>& ask);

// Sets the rule of rank 0.
void set_rule(std::uint32_t effects, std::uint64_t delay_ns = 0, std::uint64_t rate = 0);

// Rank 1 receives what rank 0 sends.
struct Connected {
  void* sending = nullptr;
  void* receiving = nullptr;
  void* listening = nullptr;
};
// Listens as `place` on the board, or connects to it. Both wait for each other.
Connected accept_at(const NetV8& net, int place);
Connected connect_to(const NetV8& net, int place);

// Tests a request until it is done or fails; the number of bytes, or the error.
struct Outcome {
  ncclResult_t result = ncclSuccess;
  int bytes = -1;
};
Outcome finish(const NetV8& net, void* request);
void* post_send(const NetV8& net, void* sending, const void* data, int bytes);
void* post_receive(const NetV8& net, void* receiving, void* data, int bytes);

// Runs the ranks, each in its process, and returns what went wrong, "" = nothing. A rank that was
// meant to die by a signal says so.
struct Ranks {
  std::function<void()> rank0, rank1;
  int rank0_dies_by = 0;
};
std::string run(const Ranks& ranks);

}  // namespace sabot::net_test
