// What link faults leave behind: which pairs a rule holds for, how rules add up, and how they end.
#include "layer/effects/link_rules.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace sabot::layer {
namespace {

constexpr std::uint64_t kNow = 1;  // before every limit, as limits count from the clock
constexpr int kCommA = 1, kCommB = 2;

scenario::Act link_act(scenario::LinkKind kind, std::uint64_t peers = scenario::kAllPeers) {
  scenario::Act act;
  act.kind = scenario::ActionKind::kLink;
  act.link = kind;
  act.peers = peers;
  return act;
}

abi::Call call_on(const int& comm, const char* label = "c0", int rank = 1, int world_rank = 1) {
  abi::Call call;
  call.comm = &comm;
  call.comm_label = label;
  call.rank = rank;
  call.world_rank = world_rank;
  call.comm_ranks = 4;
  return call;
}

class LinkRulesTest : public ::testing::Test {
 protected:
  LinkRulesTest() { rules_->note_carrier(LinkRules::Carrier::kHostEngine); }
  Status on_plugin(const scenario::Act& act, const abi::Call& call) {
    return rules_->apply(act, call, LinkRules::Carrier::kNetPlugin, {}, "f");
  }
  Status on_host(const scenario::Act& act, const abi::Call& call, std::uint32_t index = 0,
                 const char* name = "f") {
    return rules_->apply(act, call, LinkRules::Carrier::kHostEngine, {0, index}, name);
  }
  std::unique_ptr<LinkRules> rules_ = std::make_unique<LinkRules>();
};

TEST_F(LinkRulesTest, ARuleForTheNetIsRefusedWhereNoPluginWasStarted) {
  const Status status = on_plugin(link_act(scenario::LinkKind::kCut), call_on(kCommA));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kUnsupported);
  EXPECT_NE(status.error().message().find("sets NCCL_NET_PLUGIN"), std::string::npos);
  EXPECT_EQ(rules_->between(1, 0, kNow).effects, 0U);
}

TEST(LinkRules, ARuleForAHostEngineThatDoesNotAskIsRefused) {
  const auto rules = std::make_unique<LinkRules>();
  const Status status = rules->apply(link_act(scenario::LinkKind::kCut), call_on(kCommA),
                                     LinkRules::Carrier::kHostEngine, {}, "f");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kUnsupported);
}

TEST_F(LinkRulesTest, ARuleHoldsForThePeersItNamesAndForNoOther) {
  rules_->note_carrier(LinkRules::Carrier::kNetPlugin);
  const std::uint64_t before = rules_->generation();
  ASSERT_TRUE(on_plugin(link_act(scenario::LinkKind::kCut, 0b1001), call_on(kCommA)).ok());
  EXPECT_NE(rules_->generation(), before);
  EXPECT_EQ(rules_->between(1, 0, kNow).effects, std::uint32_t{SABOT_LINK_CUT});
  EXPECT_STREQ(rules_->between(1, 0, kNow).fault, "f");
  EXPECT_EQ(rules_->between(1, 2, kNow).effects, 0U);
  EXPECT_EQ(rules_->between(1, 3, kNow).effects, std::uint32_t{SABOT_LINK_CUT});
  EXPECT_EQ(rules_->between(1, -1, kNow).effects, 0U) << "a peer that is not known is none of them";
  EXPECT_EQ(rules_->between(2, 0, kNow).effects, 0U) << "another rank of the process";
  EXPECT_EQ(rules_->between(-1, 0, kNow).effects, std::uint32_t{SABOT_LINK_CUT});
}

TEST_F(LinkRulesTest, ARuleForAllPeersHoldsForUnknownOnesToo) {
  rules_->note_carrier(LinkRules::Carrier::kNetPlugin);
  ASSERT_TRUE(on_plugin(link_act(scenario::LinkKind::kDrop), call_on(kCommA, "c0/s0", 0, 1)).ok());
  EXPECT_EQ(rules_->between(1, -1, kNow).effects, std::uint32_t{SABOT_LINK_DROP});
  EXPECT_EQ(rules_->between(1, 77, kNow).effects, std::uint32_t{SABOT_LINK_DROP});
}

TEST_F(LinkRulesTest, PeersOfASplitCannotBeNamedToThePluginButToTheHostEngine) {
  rules_->note_carrier(LinkRules::Carrier::kNetPlugin);
  const scenario::Act act = link_act(scenario::LinkKind::kCut, 0b1);
  const Status refused = on_plugin(act, call_on(kCommA, "c0/s0", 1, 3));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("c0/s0"), std::string::npos);
  ASSERT_TRUE(on_host(act, call_on(kCommA, "c0/s0", 1, 3)).ok());
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, kNow).effects, std::uint32_t{SABOT_LINK_CUT});
  EXPECT_EQ(rules_->within(&kCommA, 0, 1, kNow).effects, 0U);
  EXPECT_EQ(rules_->within(&kCommB, 1, 0, kNow).effects, 0U);
  EXPECT_EQ(rules_->between(3, 0, kNow).effects, 0U);
}

TEST_F(LinkRulesTest, EffectsAddUpAndTheStrongestNamesTheFault) {
  scenario::Act delay = link_act(scenario::LinkKind::kDelay);
  delay.duration_ns = 5'000'000;
  scenario::Act throttle = link_act(scenario::LinkKind::kThrottle);
  throttle.rate_bytes_per_s = 1000;
  scenario::Act slower = throttle;
  slower.rate_bytes_per_s = 10;
  const abi::Call call = call_on(kCommA);
  ASSERT_TRUE(on_host(delay, call, 1, "late").ok());
  ASSERT_TRUE(on_host(delay, call, 2, "later").ok());
  ASSERT_TRUE(on_host(throttle, call, 3, "slow").ok());
  ASSERT_TRUE(on_host(slower, call, 4, "slower").ok());
  const sabot_link_rule_t sum = rules_->within(&kCommA, 1, 0, kNow);
  EXPECT_EQ(sum.effects, std::uint32_t{SABOT_LINK_DELAY | SABOT_LINK_THROTTLE});
  EXPECT_EQ(sum.delay_ns, 10'000'000U);
  EXPECT_EQ(sum.rate_bytes_per_s, 10U);
  EXPECT_STREQ(sum.fault, "slow");
}

TEST_F(LinkRulesTest, AFaultThatFiresAgainDoesNotAddUpWithItself) {
  scenario::Act delay = link_act(scenario::LinkKind::kDelay);
  delay.duration_ns = 5;
  for (std::size_t i = 0; i < LinkRules::kRulesMax + 1; ++i)
    ASSERT_TRUE(on_host(delay, call_on(kCommA)).ok());
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, kNow).delay_ns, 5U);
}

TEST_F(LinkRulesTest, ARuleEndsAtItsLimitByReleaseAndWithItsCommunicator) {
  scenario::Act limited = link_act(scenario::LinkKind::kPartition);
  limited.limit_ns = 1;
  ASSERT_TRUE(on_host(limited, call_on(kCommA), 1).ok());
  const std::uint64_t until = rules_->within(&kCommA, 1, 0, kNow).until_ns;
  EXPECT_NE(until, 0U);
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, until).effects, 0U);

  ASSERT_TRUE(on_host(link_act(scenario::LinkKind::kCut), call_on(kCommA), 2).ok());
  ASSERT_TRUE(on_host(link_act(scenario::LinkKind::kDrop), call_on(kCommB), 3).ok());
  rules_->release({0, 9});
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, until).effects, std::uint32_t{SABOT_LINK_CUT});
  const std::uint64_t before = rules_->generation();
  rules_->release({0, 2});
  EXPECT_NE(rules_->generation(), before);
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, until).effects, 0U);
  EXPECT_EQ(rules_->within(&kCommB, 1, 0, until).effects, std::uint32_t{SABOT_LINK_DROP});
  rules_->end_comm(&kCommB);
  EXPECT_EQ(rules_->within(&kCommB, 1, 0, until).effects, 0U);
}

TEST_F(LinkRulesTest, AFullTableRefusesUntilARuleEnds) {
  const scenario::Act cut = link_act(scenario::LinkKind::kCut);
  for (std::uint32_t i = 0; i < LinkRules::kRulesMax; ++i)
    ASSERT_TRUE(on_host(cut, call_on(kCommA), i).ok());
  const Status refused = on_host(cut, call_on(kCommA), 1000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "256 link faults hold in this process already; end them by `for`, or limit them by "
            "`budget`");
  rules_->release({0, 7});
  EXPECT_TRUE(on_host(cut, call_on(kCommA), 1000).ok());
}

TEST_F(LinkRulesTest, AForkedChildForgetsAll) {
  ASSERT_TRUE(on_host(link_act(scenario::LinkKind::kCut), call_on(kCommA)).ok());
  rules_->forget();
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, kNow).effects, 0U);
  EXPECT_TRUE(on_host(link_act(scenario::LinkKind::kCut), call_on(kCommA)).ok());
}

TEST_F(LinkRulesTest, TheLayerNamesFaultsOfTheScenarioAndCountsInjections) {
  RuledLinks links(*rules_, LinkRules::Carrier::kHostEngine, {"nic-dies", "slow"});
  LinkEffects& seam = links;
  ASSERT_TRUE(seam.apply(link_act(scenario::LinkKind::kDrop), call_on(kCommA), {0, 1}).ok());
  EXPECT_STREQ(rules_->within(&kCommA, 1, 0, kNow).fault, "slow");
  ASSERT_TRUE(seam.apply(link_act(scenario::LinkKind::kCut), call_on(kCommA), {3, 0}).ok());
  EXPECT_STREQ(rules_->within(&kCommA, 1, 0, kNow).fault, "injection 3");
  seam.release({3, 0});
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, kNow).effects, std::uint32_t{SABOT_LINK_DROP});
  seam.release_all();
  EXPECT_EQ(rules_->within(&kCommA, 1, 0, kNow).effects, 0U);
}

}  // namespace
}  // namespace sabot::layer
