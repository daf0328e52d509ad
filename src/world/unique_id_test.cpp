// Ids: what goes in comes out, and everything that is not ours is told apart by kind.
#include "world/unique_id.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "world/interface.hpp"

namespace sabot::world {
namespace {

IdContent example() {
  IdContent content;
  content.api_version = 23007;
  content.creator_pid = 4711;
  content.world = {0x0123456789abcdef, 0xfedcba9876543210};
  content.address.port = 40123;
  content.address.bytes = {127, 0, 0, 1};
  return content;
}

TEST(UniqueId, HoldsVersionProcessWorldAndAddress) {
  const IdContent content = read_id(write_id(example())).value();
  EXPECT_EQ(content.api_version, 23007u);
  EXPECT_EQ(content.creator_pid, 4711);
  EXPECT_EQ(content.world, (WorldName{0x0123456789abcdef, 0xfedcba9876543210}));
  EXPECT_EQ(to_text(content.address), "127.0.0.1:40123");
}

TEST(UniqueId, NamesItsEngineInClearText) {
  const UniqueId id = write_id(example());
  EXPECT_EQ(std::string_view(id.bytes.data(), 15), "SABOT-HOST-ID/1");
}

TEST(UniqueId, HasNoSocketFamilyWhereNvidiasLibraryLooksForOne) {
  const UniqueId id = write_id(example());
  std::uint16_t family = 0;
  std::memcpy(&family, id.bytes.data() + 8, sizeof family);
  EXPECT_NE(family, AF_INET);
  EXPECT_NE(family, AF_INET6);
}

TEST(UniqueId, OfNvidiasLibraryIsRecognised) {
  UniqueId id;
  const std::uint64_t magic = 0x5a3c91d20f4e7788;
  const std::uint16_t family = AF_INET;
  std::memcpy(id.bytes.data(), &magic, sizeof magic);
  std::memcpy(id.bytes.data() + 8, &family, sizeof family);
  const auto result = read_id(id);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Code::kInvalidUsage);
  EXPECT_EQ(
      result.error().message(),
      "mixing engines: this unique id was made by NVIDIA's NCCL, but this process runs Sabot's "
      "host engine; start every rank with the same engine");
}

TEST(UniqueId, OfZerosWasNeverFilledIn) {
  const auto result = read_id(UniqueId{});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(
      result.error().message(),
      "the unique id is all zeros; pass the id that ncclGetUniqueId filled in on one rank, and "
      "send all 128 bytes of it to the others");
}

TEST(UniqueId, CutByAStringCopyIsDamaged) {
  UniqueId id = write_id(example());
  std::fill(id.bytes.begin() + 20, id.bytes.end(), '\0');
  const auto result = read_id(id);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(
      result.error().message(),
      "the unique id arrived damaged; send all 128 bytes, not a C string: the id contains zero "
      "bytes");
}

TEST(UniqueId, OfAnotherReleaseAndOfNobodyAreUsageErrors) {
  UniqueId other = write_id(example());
  other.bytes[14] = '2';
  EXPECT_EQ(
      read_id(other).error().message(),
      "this unique id was made by another release of Sabot's host engine; start every rank with "
      "the same release");
  UniqueId nonsense;
  nonsense.bytes.fill('x');
  EXPECT_EQ(read_id(nonsense).error().message(),
            "mixing engines: this unique id was not made by Sabot's host engine; pass the id that "
            "ncclGetUniqueId of this same library returned");
}

std::vector<Interface> example_interfaces() {
  Interface lo{"lo", true, {}};
  lo.address.bytes = {127, 0, 0, 1};
  Interface eth0_ipv6{"eth0", false, {}};
  eth0_ipv6.address.is_ipv6 = true;
  Interface eth0{"eth0", false, {}};
  eth0.address.bytes = {10, 0, 0, 7};
  Interface docker0{"docker0", false, {}};
  docker0.address.bytes = {172, 17, 0, 1};
  return {lo, eth0_ipv6, eth0, docker0};
}

TEST(Interfaces, AreChosenByPrefixExactNameOrExclusion) {
  const auto all = example_interfaces();
  EXPECT_EQ(to_text(choose_address(all, "").value()), "127.0.0.1:0");
  EXPECT_EQ(to_text(choose_address(all, "eth").value()), "10.0.0.7:0");
  EXPECT_EQ(to_text(choose_address(all, "ib,docker").value()), "172.17.0.1:0");
  EXPECT_EQ(to_text(choose_address(all, "=lo").value()), "127.0.0.1:0");
  EXPECT_EQ(to_text(choose_address(all, "^docker").value()), "10.0.0.7:0");
}

TEST(Interfaces, ThatDoNotExistAreAnsweredWithThoseThatDo) {
  EXPECT_EQ(choose_address(example_interfaces(), "ib0").error().message(),
            "SABOT_SOCKET_IFNAME='ib0' matches no interface; this machine has lo, eth0, docker0");
  EXPECT_EQ(choose_address(example_interfaces(), "=eth").error().message(),
            "SABOT_SOCKET_IFNAME='=eth' matches no interface; this machine has lo, eth0, docker0");
}

}  // namespace
}  // namespace sabot::world
