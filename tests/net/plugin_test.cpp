// Every function of the plugin's tables, and every fault, between two processes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/random.hpp"
#include "sabot/link.h"
#include "two_processes.hpp"

namespace sabot::net_test {
namespace {

using products::net::PropertiesV7;
using products::net::PropertiesV8;

std::uint64_t checksum(const std::vector<char>& bytes, std::size_t count) {
  return hash_text({bytes.data(), count});
}

void close(const NetV8& net, const Connected& ends) {
  REQUIRE(net.close_send(ends.sending) == ncclSuccess);
  REQUIRE(net.close_receive(ends.receiving) == ncclSuccess);
  REQUIRE(net.close_listen(ends.listening) == ncclSuccess);
}

TEST(Plugin, EveryFunctionOfVersion8DoesItsPart) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       REQUIRE(std::strcmp(net.name, "Sabot") == 0);
                       REQUIRE(was_logged("NET/Sabot : using lo:127.0.0.1"));
                       const Connected ends = connect_to(net, 0);
                       int number = 42;
                       void* memory = &number;
                       REQUIRE(net.register_memory(ends.sending, &number, sizeof number, 1,
                                                   &memory) == ncclSuccess);
                       void* request = post_send(net, ends.sending, &number, sizeof number);
                       REQUIRE(finish(net, request).bytes == sizeof number);
                       request = post_send(net, ends.sending, nullptr, 0);
                       REQUIRE(finish(net, request).bytes == 0);
                       REQUIRE(net.deregister_memory(ends.sending, memory) == ncclSuccess);
                       close(net, ends);
                     },
                 .rank1 =
                     [] {
                       const NetV8& net = plugin_v8();
                       int count = 0;
                       REQUIRE(net.devices(&count) == ncclSuccess && count == 1);
                       PropertiesV8 properties;
                       REQUIRE(net.get_properties(0, &properties) == ncclSuccess);
                       REQUIRE(std::strcmp(properties.name, "lo") == 0);
                       REQUIRE(properties.pointer_support == 1 && properties.receives_max == 1);
                       REQUIRE(properties.speed_mbps > 0 && properties.comms_max > 0);
                       REQUIRE(properties.registration_is_global == 0);
                       const Connected ends = accept_at(net, 0);
                       int number = 0;
                       void* request = post_receive(net, ends.receiving, &number, sizeof number);
                       REQUIRE(finish(net, request).bytes == sizeof number && number == 42);
                       void* flush = &number;
                       int bytes = sizeof number;
                       void* data = &number;
                       REQUIRE(net.iflush(ends.receiving, 1, &data, &bytes, nullptr, &flush) ==
                               ncclSuccess);
                       REQUIRE(flush == nullptr);
                       request = post_receive(net, ends.receiving, &number, sizeof number);
                       REQUIRE(finish(net, request).bytes == 0);
                       close(net, ends);
                     }}),
            "");
}

TEST(Plugin, Version7HasTheSameFunctionsAndItsOwnProperties) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV7& net = plugin_v7();
                       PropertiesV7 properties;
                       REQUIRE(net.get_properties(0, &properties) == ncclSuccess);
                       REQUIRE(std::strcmp(properties.name, "lo") == 0);
                       REQUIRE(properties.speed_mbps > 0 && properties.receives_max == 1);
                       REQUIRE(properties.pointer_support == 1);
                       void* memory = &properties;
                       REQUIRE(net.register_memory(nullptr, nullptr, 8, 1, &memory) == ncclSuccess);
                       REQUIRE(net.isend == plugin_v8().isend);
                     },
                 .rank1 = [] {}}),
            "");
}

TEST(Plugin, WhatItCannotDoIsRefusedWithAText) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       PropertiesV8 properties;
                       REQUIRE(net.get_properties(1, &properties) == ncclInvalidArgument);
                       REQUIRE(was_logged("there is no network device 1; there are 1"));
                       void* pointer = nullptr;
                       REQUIRE(net.register_memory(nullptr, nullptr, 8, 2, &pointer) ==
                               ncclInvalidArgument);
                       REQUIRE(net.register_dma_buffer(nullptr, nullptr, 8, 2, 0, -1, &pointer) ==
                               ncclInvalidArgument);
                       Handle handle{};
                       REQUIRE(net.connect(0, &handle, &pointer, nullptr) == ncclInvalidArgument);
                       REQUIRE(was_logged("was not made by this version of libnccl-net-sabot.so"));
                       REQUIRE(net.listen(7, &handle, &pointer) == ncclInvalidArgument);
                       int is_done = 0;
                       REQUIRE(net.test(nullptr, &is_done, nullptr) == ncclInvalidArgument);
                       REQUIRE(net.isend(nullptr, nullptr, 0, 0, nullptr, &pointer) ==
                               ncclInvalidArgument);
                       // NCCL would call it for every message.
                       REQUIRE(net.device_memory == nullptr && net.receive_consumed == nullptr);
                       REQUIRE(net.close_send(nullptr) == ncclSuccess);
                     },
                 .rank1 = [] {}}),
            "");
}

TEST(Plugin, ItIsNeverUnloaded) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       void* library = ::dlopen(SABOT_NET_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
                       REQUIRE(library != nullptr);
                       for (int i = 0; i < 5; ++i) ::dlclose(library);
                       REQUIRE(::dlopen(SABOT_NET_PLUGIN, RTLD_NOW | RTLD_NOLOAD) != nullptr);
                       int count = 0;
                       REQUIRE(net.devices(&count) == ncclSuccess && count == 1);
                     },
                 .rank1 = [] {}}),
            "");
}

TEST(Plugin, ItCarriesBytesInAProcessWithoutSabot) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       board->has_sabot = false;
                       set_rule(SABOT_LINK_CUT);
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       REQUIRE(finish(net, post_send(net, ends.sending, "x", 1)).bytes == 1);
                     },
                 .rank1 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = accept_at(net, 0);
                       char byte = 0;
                       REQUIRE(finish(net, post_receive(net, ends.receiving, &byte, 1)).bytes == 1);
                       REQUIRE(byte == 'x');
                     }}),
            "");
}

// The n-th message of a stream that both sides can compute.
std::vector<char> message(int number) {
  const std::uint64_t bits = mix(static_cast<std::uint64_t>(number));
  std::vector<char> bytes(bits % (number % 20 == 0 ? 1'000'000 : 2'000));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 31 + bits) >> 3);
  return bytes;
}

TEST(Plugin, TenThousandMessagesOfRandomSizesArriveInOrderWithTheirChecksums) {
  constexpr int kMessages = 10'000;
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       for (int i = 0; i < kMessages; ++i) {
                         const std::vector<char> bytes = message(i);
                         void* request = post_send(net, ends.sending, bytes.data(),
                                                   static_cast<int>(bytes.size()));
                         REQUIRE(finish(net, request).result == ncclSuccess);
                       }
                     },
                 .rank1 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = accept_at(net, 0);
                       constexpr int kAhead = 8;
                       std::vector<std::vector<char>> buffers(kAhead, std::vector<char>(1'000'000));
                       void* requests[kAhead];
                       for (int i = 0; i < kMessages + kAhead; ++i) {
                         std::vector<char>& buffer = buffers[static_cast<std::size_t>(i % kAhead)];
                         if (i >= kAhead) {
                           const std::vector<char> meant = message(i - kAhead);
                           const Outcome got = finish(net, requests[i % kAhead]);
                           REQUIRE(got.bytes == static_cast<int>(meant.size()));
                           REQUIRE(checksum(buffer, meant.size()) == checksum(meant, meant.size()));
                         }
                         requests[i % kAhead] = post_receive(net, ends.receiving, buffer.data(),
                                                             static_cast<int>(buffer.size()));
                       }
                     }}),
            "");
}

TEST(Plugin, ManyConnectionsKeepTheirBytesApart) {
  constexpr int kConnections = 200;
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       std::vector<Connected> all;
                       for (int i = 0; i < kConnections; ++i) all.push_back(connect_to(net, i));
                       for (int i = kConnections; i-- > 0;) {
                         const auto& ends = all[static_cast<std::size_t>(i)];
                         REQUIRE(finish(net, post_send(net, ends.sending, &i, sizeof i)).bytes ==
                                 sizeof i);
                       }
                       until("the other side", [] { return board->step == 1; });
                       for (const Connected& ends : all) close(net, ends);
                     },
                 .rank1 =
                     [] {
                       const NetV8& net = plugin_v8();
                       std::vector<Connected> all;
                       for (int i = 0; i < kConnections; ++i) all.push_back(accept_at(net, i));
                       for (int i = 0; i < kConnections; ++i) {
                         const auto& ends = all[static_cast<std::size_t>(i)];
                         int number = -1;
                         void* request = post_receive(net, ends.receiving, &number, sizeof number);
                         REQUIRE(finish(net, request).bytes == sizeof number && number == i);
                       }
                       board->step = 1;
                       for (const Connected& ends : all) close(net, ends);
                     }}),
            "");
}

TEST(Plugin, APeerThatIsKilledIsARemoteErrorThatNamesIt) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       std::vector<char> bytes(1'000'000);
                       void* request = post_send(net, ends.sending, bytes.data(), 1'000'000);
                       int is_done = 0;
                       net.test(request, &is_done, nullptr);
                       ::raise(SIGKILL);
                     },
                 .rank1 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = accept_at(net, 0);
                       std::vector<char> bytes(2'000'000);
                       void* request = post_receive(net, ends.receiving, bytes.data(), 2'000'000);
                       Outcome got = finish(net, request);
                       if (got.result == ncclSuccess)
                         got = finish(net, post_receive(net, ends.receiving, bytes.data(), 1));
                       REQUIRE(got.result == ncclRemoteError);
                       REQUIRE(was_logged("from rank 0 (127.0.0.1:"));
                       REQUIRE(was_logged("its process is gone"));
                     },
                 .rank0_dies_by = SIGKILL}),
            "");
}

// What rank 1 meets when rank 0 sends one byte under a rule that is set while both are connected.
void receive_one(const std::function<void(const NetV8&, void* request, const char& byte)>& then) {
  const NetV8& net = plugin_v8();
  const Connected ends = accept_at(net, 0);
  char byte = 0;
  void* request = post_receive(net, ends.receiving, &byte, 1);
  int is_done = 0;
  REQUIRE(net.test(request, &is_done, nullptr) == ncclSuccess && is_done == 0);
  board->step = 1;
  then(net, request, byte);
}

Outcome send_one(const NetV8& net, const Connected& ends, std::uint32_t effects) {
  until("the receiver", [] { return board->step == 1; });
  set_rule(effects);
  return finish(net, post_send(net, ends.sending, "x", 1));
}

TEST(Plugin, ACutEndsInRemoteErrorsOnBothRanksThatNameTheOther) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       REQUIRE(send_one(net, ends, SABOT_LINK_CUT).result == ncclRemoteError);
                       REQUIRE(was_logged("rank 0 sending message 0 to rank 1 (127.0.0.1:"));
                       REQUIRE(was_logged("the link was cut by the fault 'nic-dies'"));
                       REQUIRE(board->asked_peer[0] == 1);
                       until("the other side", [] { return board->step == 2; });
                       close(net, ends);
                     },
                 .rank1 =
                     [] {
                       receive_one([](const NetV8& net, void* request, const char&) {
                         REQUIRE(finish(net, request).result == ncclRemoteError);
                         REQUIRE(was_logged("rank 1 receiving message 0 from rank 0 (127.0.0.1:"));
                         board->step = 2;
                       });
                     }}),
            "");
}

TEST(Plugin, ADropCountsAsSentAndNeverArrives) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       REQUIRE(send_one(net, ends, SABOT_LINK_DROP).bytes == 1);
                       board->step = 2;
                       until("the other side", [] { return board->step == 3; });
                       set_rule(0);
                       REQUIRE(finish(net, post_send(net, ends.sending, "y", 1)).bytes == 1);
                       until("the other side", [] { return board->step == 4; });
                     },
                 .rank1 =
                     [] {
                       receive_one([](const NetV8& net, void* request, const char& byte) {
                         until("the sender", [] { return board->step == 2; });
                         for (int i = 0; i < 1000; ++i) {
                           int is_done = 0;
                           REQUIRE(net.test(request, &is_done, nullptr) == ncclSuccess);
                           REQUIRE(is_done == 0);
                         }
                         board->step = 3;
                         REQUIRE(finish(net, request).result == ncclRemoteError);
                         REQUIRE(was_logged("messages 0 to 0 were lost on the way"));
                         REQUIRE(byte == 0);
                         board->step = 4;
                       });
                     }}),
            "");
}

TEST(Plugin, APartitionHoldsAMessageUntilItEnds) {
  EXPECT_EQ(run({.rank0 =
                     [] {
                       const NetV8& net = plugin_v8();
                       const Connected ends = connect_to(net, 0);
                       until("the receiver", [] { return board->step == 1; });
                       set_rule(SABOT_LINK_PARTITION);
                       void* request = post_send(net, ends.sending, "x", 1);
                       for (int i = 0; i < 1000; ++i) {
                         int is_done = 0;
                         REQUIRE(net.test(request, &is_done, nullptr) == ncclSuccess);
                         REQUIRE(is_done == 0);
                       }
                       set_rule(0);
                       REQUIRE(finish(net, request).bytes == 1);
                       until("the other side", [] { return board->step == 2; });
                     },
                 .rank1 =
                     [] {
                       receive_one([](const NetV8& net, void* request, const char& byte) {
                         REQUIRE(finish(net, request).bytes == 1 && byte == 'x');
                         board->step = 2;
                       });
                     }}),
            "");
}

TEST(Plugin, DelayAndThrottleTakeTheirTime) {
  EXPECT_EQ(
      run({.rank0 =
               [] {
                 const NetV8& net = plugin_v8();
                 const Connected ends = connect_to(net, 0);
                 std::vector<char> bytes(200'000, 'z');
                 set_rule(SABOT_LINK_DELAY, 40'000'000);
                 std::uint64_t begin = now_ns();
                 REQUIRE(finish(net, post_send(net, ends.sending, bytes.data(), 200'000)).bytes ==
                         200'000);
                 REQUIRE(now_ns() - begin >= 40'000'000);
                 set_rule(SABOT_LINK_THROTTLE, 0, 2'000'000);
                 begin = now_ns();
                 REQUIRE(finish(net, post_send(net, ends.sending, bytes.data(), 200'000)).bytes ==
                         200'000);
                 // 100 ms at this rate; the last portion of 5 ms is not waited for.
                 REQUIRE(now_ns() - begin >= 94'000'000);
                 until("the other side", [] { return board->step == 1; });
               },
           .rank1 =
               [] {
                 const NetV8& net = plugin_v8();
                 const Connected ends = accept_at(net, 0);
                 std::vector<char> bytes(200'000);
                 for (int i = 0; i < 2; ++i) {
                   void* request = post_receive(net, ends.receiving, bytes.data(), 200'000);
                   REQUIRE(finish(net, request).bytes == 200'000);
                   REQUIRE(bytes == std::vector<char>(200'000, 'z'));
                 }
                 board->step = 1;
               }}),
      "");
}

}  // namespace
}  // namespace sabot::net_test
