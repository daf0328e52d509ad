// Which interfaces are taken, by NCCL's rules.
#include "link/net/device.hpp"

#include <gtest/gtest.h>

namespace sabot::link::net {
namespace {

Device device(std::string name, bool is_ipv6 = false) {
  Device made;
  made.name = std::move(name);
  made.address.is_ipv6 = is_ipv6;
  return made;
}

const std::vector<Device> kMachine = {device("lo"),         device("lo", true), device("eth0"),
                                      device("eth0", true), device("eth1"),     device("docker0"),
                                      device("ib0", true)};

std::string chosen(std::string_view names, std::string_view family = "",
                   const std::vector<Device>& all = kMachine) {
  const auto devices = choose_devices(all, {names, family});
  if (!devices.ok()) return "error: " + devices.error().message();
  std::string text;
  for (const Device& one : *devices)
    text += (text.empty() ? "" : " ") + one.name + (one.address.is_ipv6 ? "/6" : "");
  return text;
}

TEST(Devices, WithoutASelectorLoopbackAndDockerAreLeftOut) {
  EXPECT_EQ(chosen(""), "eth0 eth1 ib0/6");
}
TEST(Devices, WhereThereIsNothingElseLoopbackIsTaken) {
  EXPECT_EQ(chosen("", "", {device("lo"), device("docker0")}), "lo docker0");
}
TEST(Devices, NamesArePrefixes) { EXPECT_EQ(chosen("eth,ib"), "eth0 eth1 ib0/6"); }
TEST(Devices, AnEqualsSignAsksForExactNames) {
  EXPECT_EQ(chosen("=eth1,lo"), "lo eth1");
  EXPECT_TRUE(chosen("=eth").starts_with("error: "));
}
TEST(Devices, ACaretExcludes) {
  EXPECT_EQ(chosen("^docker,lo,ib"), "eth0 eth1");
  EXPECT_EQ(chosen("^=eth1"), "lo eth0 docker0 ib0/6");
}
TEST(Devices, AFamilyChoosesAmongTheAddresses) {
  EXPECT_EQ(chosen("", "AF_INET6"), "eth0/6 ib0/6");
  EXPECT_EQ(chosen("", "AF_INET"), "eth0 eth1");
}
TEST(Devices, ASelectorThatLeavesNothingIsRefusedWithWhatThereIs) {
  EXPECT_EQ(chosen("wlan", "AF_INET"),
            "error: NCCL_SOCKET_IFNAME='wlan' with NCCL_SOCKET_FAMILY='AF_INET' leaves no "
            "interface; this machine has lo, eth0, eth1, docker0, ib0");
}
TEST(Devices, NotMoreThanSixteen) {
  std::vector<Device> many;
  for (int i = 0; i < 20; ++i) many.push_back(device("eth" + std::to_string(i)));
  const auto devices = choose_devices(many, {});
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->size(), kDevicesMax);
}
TEST(Devices, ThisMachineHasOneWithAnAddress) {
  const auto all = list_devices();
  ASSERT_TRUE(all.ok());
  ASSERT_FALSE(all->empty());
  for (const Device& one : *all) {
    EXPECT_FALSE(one.name.empty());
    EXPECT_GT(one.speed_mbps, 0);
  }
}

}  // namespace
}  // namespace sabot::link::net
