// Faults of a scenario and of injections on the same calls: who fires, who only counts, who is
// told, and when an injection is left.
#include "layer/plan/plan_list.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "scenario/parse.hpp"

namespace sabot::layer {
namespace {

using abi::FunctionId;

scenario::Scenario parsed(const char* line) {
  Result<scenario::Scenario> scenario = scenario::parse_line(line, "the test");
  EXPECT_TRUE(scenario.ok()) << line;
  return std::move(scenario).value();
}

run::RecorderOptions options_for(const scenario::Scenario& scenario) {
  run::RecorderOptions options;
  options.slot_bytes = sizeof(scenario::FaultTally);
  for (const scenario::Fault& fault : scenario.faults)
    options.faults.push_back({fault.name, fault.budget});
  return options;
}

struct PlanListTest : testing::Test {
  scenario::Scenario scenario = parsed("own: AllReduce[nth=2]=error(SystemError)");
  run::Recorder recorder{options_for(scenario)};
  RunLedger ledger{recorder};
  ArmedPlan own{scenario, {"scenario"}, ledger, recorder.slots<scenario::FaultTally>()};
  PlanList list{&own};
  std::uint64_t nth = 0;
  std::vector<std::string> told;

  static void note(void* user, const sabot_firing_t* firing) {
    static_cast<PlanListTest*>(user)->told.push_back(std::string(firing->fault) + " at " +
                                                     std::to_string(firing->nth));
  }
  std::shared_ptr<Injection> inject(std::uint64_t id, const char* line) {
    auto injection =
        std::make_shared<Injection>(id, parsed(line), recorder, FiredCallback{&note, this});
    list.add(injection);
    return injection;
  }
  // The result that the next AllReduce is to return; success if none fires.
  ncclResult_t next() {
    abi::Call call;
    call.function = FunctionId::kAllReduce;
    call.rank = call.world_rank = 0;
    call.nth = ++nth;
    Firings firings;
    list.consider(call, firings);
    return firings.empty() ? ncclSuccess : static_cast<ncclResult_t>(firings.begin()->act.result);
  }
};

TEST_F(PlanListTest, ConcernsTheFunctionsOfTheScenarioAndOfWhatIsInjectedNow) {
  EXPECT_TRUE(list.concerns(FunctionId::kAllReduce));
  EXPECT_FALSE(list.concerns(FunctionId::kBroadcast));
  inject(1, "Broadcast=error(SystemError)");
  EXPECT_TRUE(list.concerns(FunctionId::kBroadcast));
  EXPECT_NE(list.remove(1), nullptr);
  EXPECT_FALSE(list.concerns(FunctionId::kBroadcast));
  EXPECT_TRUE(list.concerns(FunctionId::kAllReduce));
  EXPECT_EQ(list.remove(1), nullptr) << "it was taken off already";
}

TEST_F(PlanListTest, NumbersOfAnInjectionCountFromItsArrivalAndThoseOfTheScenarioGoOn) {
  EXPECT_EQ(next(), ncclSuccess);
  inject(1, "AllReduce[nth=2]=error(RemoteError)");
  EXPECT_EQ(next(), ncclSystemError) << "the scenario's second";
  EXPECT_EQ(next(), ncclRemoteError) << "the injection counted the call that the scenario took";
  EXPECT_EQ(next(), ncclSuccess);
  EXPECT_EQ(told, std::vector<std::string>{"line-1 at 3"});
}

TEST_F(PlanListTest, OfTwoInjectionsTheEarlierFiresAndTheLaterKeepsItsBudget) {
  ++nth;
  const auto first = inject(1, "first: AllReduce[budget=1]=error(RemoteError)");
  const auto second = inject(2, "second: AllReduce[budget=1]=error(InternalError)");
  EXPECT_EQ(next(), ncclRemoteError);
  EXPECT_EQ(second->fired_count(), 0u);
  EXPECT_EQ(next(), ncclSystemError) << "the scenario's second call comes before both";
  EXPECT_EQ(next(), ncclInternalError);
  EXPECT_EQ(next(), ncclSuccess) << "both budgets are used up";
  EXPECT_EQ(first->fired_count(), 1u);
  EXPECT_EQ(second->fired_count(), 1u);
  EXPECT_EQ(told, (std::vector<std::string>{"first at 2", "second at 4"}));
}

TEST_F(PlanListTest, WhyNotHasALineForEachFaultThatNeverFired) {
  const auto injection = inject(1,
                                "AllReduce[rank=7]=error(SystemError);AllReduce=error(SystemError);"
                                "late: Broadcast=error(SystemError)");
  next();
  EXPECT_EQ(injection->why_not(),
            "fault \"line-1\" did not fire: closest: 1 call matched everything but rank (wanted 7, "
            "seen 0)\nfault \"late\" did not fire: no call of Broadcast was made");
}

TEST_F(PlanListTest, AForkedChildIsConcernedByNothing) {
  inject(1, "AllReduce=error(SystemError)");
  list.disarm();
  EXPECT_FALSE(list.concerns(FunctionId::kAllReduce));
}

TEST_F(PlanListTest, ARemovedInjectionIsLeftOnlyOnceItsCallbackHasReturnedElsewhere) {
  struct Meeting {
    std::atomic<bool> is_inside{false};
    std::atomic<bool> may_go{false};
  } meeting;
  const FiredCallback stay{[](void* user, const sabot_firing_t*) {
                             auto* at = static_cast<Meeting*>(user);
                             at->is_inside = true;
                             while (!at->may_go) std::this_thread::yield();
                           },
                           &meeting};
  auto injection =
      std::make_shared<Injection>(1, parsed("AllReduce[nth=1]=error(SystemError)"), recorder, stay);
  list.add(injection);
  std::thread caller([this] { EXPECT_EQ(next(), ncclSystemError); });
  while (!meeting.is_inside) std::this_thread::yield();
  ASSERT_EQ(list.remove(1), injection);
  EXPECT_FALSE(list.wait_until_left(*injection, 1'000'000));
  meeting.may_go = true;
  EXPECT_TRUE(list.wait_until_left(*injection, 10'000'000'000));
  caller.join();
}

TEST_F(PlanListTest, ACallbackMayTakeItsOwnInjectionOff) {
  const FiredCallback withdraw{[](void* user, const sabot_firing_t* firing) {
                                 auto* self = static_cast<PlanListTest*>(user);
                                 const auto removed = self->list.remove(firing->injection);
                                 EXPECT_TRUE(self->list.wait_until_left(*removed, 10'000'000'000));
                               },
                               this};
  list.add(
      std::make_shared<Injection>(1, parsed("AllReduce=error(RemoteError)"), recorder, withdraw));
  EXPECT_EQ(next(), ncclRemoteError);
  EXPECT_EQ(next(), ncclSystemError) << "only the scenario's is left";
}

TEST_F(PlanListTest, ThreadsMayCallWhileOthersInjectAndRemove) {
  constexpr int kRounds = 200;
  std::atomic<bool> is_done{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i)
    callers.emplace_back([&, i] {
      abi::Call call;
      call.function = FunctionId::kAllReduce;
      call.rank = call.world_rank = i;
      while (!is_done) {
        ++call.nth;
        Firings firings;
        list.consider(call, firings);
      }
    });
  for (std::uint64_t id = 1; id <= kRounds; ++id) {
    auto injection = std::make_shared<Injection>(
        id, parsed("AllReduce[every=3]=error(SystemError)"), recorder, FiredCallback{});
    list.add(injection);
    ASSERT_EQ(list.remove(id), injection);
    ASSERT_TRUE(list.wait_until_left(*injection, 10'000'000'000));
  }
  is_done = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace sabot::layer
