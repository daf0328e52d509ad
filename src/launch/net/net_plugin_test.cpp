// When a run gets the network plugin, and whose plugin it does not replace.
#include "launch/net/net_plugin.hpp"

#include <gtest/gtest.h>

#include "launch/fake_machine.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch {
namespace {

constexpr char kLinkFault[] = "AllReduce[rank=1]=link(cut)";

class NetPluginTest : public ::testing::Test {
 protected:
  Result<NetEnvironment> ask(const char* line, std::vector<const char*> environment = {},
                             bool is_real = true) {
    environment.push_back(nullptr);
    const config::Snapshot settings =
        config::Snapshot::resolve({.environment = environment.data()});
    auto scenario = scenario::parse_line(line, "--fault");
    EXPECT_TRUE(scenario.ok()) << scenario.error().message();
    return net_environment(*scenario, is_real, settings, installation_, machine_);
  }
  std::string refusal(std::vector<const char*> environment) {
    const auto net = ask(kLinkFault, std::move(environment));
    EXPECT_FALSE(net.ok());
    return net.ok() ? "" : net.error().message();
  }

  Installation installation_{"/s"};
  FakeMachine machine_ = [] {
    FakeMachine machine;
    machine.files = {"/s/lib/libnccl-net-sabot.so"};
    return machine;
  }();
};

constexpr char kRefused[] =
    "the scenario has a link fault, for which all traffic goes through Sabot's network plugin, "
    "but ";

TEST_F(NetPluginTest, ALinkFaultOnTheRealLibrarySetsTheVariablesAndSaysSo) {
  const auto net = ask(kLinkFault, {"NCCL_NET=Socket", "NCCL_NET_PLUGIN=none"});
  ASSERT_TRUE(net.ok()) << net.error().message();
  EXPECT_EQ(net->text,
            "link faults: on all ranks NCCL's traffic goes over the sockets of Sabot's plugin "
            "(NCCL_NET_PLUGIN=/s/lib/libnccl-net-sabot.so, NCCL_NET=Sabot, NCCL_P2P_DISABLE=1, "
            "NCCL_SHM_DISABLE=1, NCCL_NVLS_ENABLE=0), which is slower");
  EXPECT_EQ(net->variables.size(), 5U);
}

TEST_F(NetPluginTest, WithoutALinkFaultNothingIsSet) {
  machine_.cache["libnccl-net.so"] = {"/usr/lib/libnccl-net.so"};
  const auto net = ask("AllReduce[rank=1]=error(SystemError)", {"NCCL_NET_PLUGIN=mine"});
  ASSERT_TRUE(net.ok());
  EXPECT_TRUE(net->variables.empty());
  EXPECT_EQ(net->text, "");
}

TEST_F(NetPluginTest, OnTheHostEngineNothingIsSet) {
  const auto net = ask(kLinkFault, {"NCCL_NET_PLUGIN=mine"}, false);
  ASSERT_TRUE(net.ok());
  EXPECT_TRUE(net->variables.empty());
}

TEST_F(NetPluginTest, APluginThatIsAskedForIsNotReplaced) {
  EXPECT_EQ(refusal({"NCCL_NET_PLUGIN=aws-ofi"}),
            std::string(kRefused) +
                "NCCL_NET_PLUGIN asks for 'aws-ofi'; unset it for this run, or use another action "
                "than link");
}

TEST_F(NetPluginTest, APluginThatWouldBeFoundIsNotReplaced) {
  machine_.files.insert("/opt/ofi/lib/libnccl-net.so");
  EXPECT_EQ(refusal({"LD_LIBRARY_PATH=/a::/opt/ofi/lib"}),
            std::string(kRefused) +
                "NCCL would find '/opt/ofi/lib/libnccl-net.so' here; set NCCL_NET_PLUGIN=none to "
                "do without it in this run, or use another action than link");
  machine_.files.erase("/opt/ofi/lib/libnccl-net.so");
  machine_.cache["libnccl-net.so"] = {"/usr/lib/libnccl-net.so"};
  EXPECT_NE(refusal({}).find("'/usr/lib/libnccl-net.so'"), std::string::npos);
  EXPECT_TRUE(ask(kLinkFault, {"NCCL_NET_PLUGIN=none"}).ok());
}

TEST_F(NetPluginTest, AnotherNetworkIsNotReplaced) {
  EXPECT_EQ(refusal({"NCCL_NET=IB"}),
            std::string(kRefused) +
                "NCCL_NET asks for 'IB'; unset it for this run, or use another action than link");
}

TEST_F(NetPluginTest, AnOuterRunOfOursIsNoOtherPlugin) {
  EXPECT_TRUE(
      ask(kLinkFault, {"NCCL_NET_PLUGIN=/s/lib/libnccl-net-sabot.so", "NCCL_NET=Sabot"}).ok());
}

TEST_F(NetPluginTest, AnInstallationWithoutThePluginSaysSo) {
  machine_.files.clear();
  EXPECT_EQ(refusal({}).rfind("'/s/lib/libnccl-net-sabot.so' is missing beside this program", 0),
            0U);
}

}  // namespace
}  // namespace sabot::launch
