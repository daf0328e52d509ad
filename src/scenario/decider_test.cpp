// When faults fire: counting, precedence, seeds, switches and time, one call after the other.
//
// A Job makes calls the way the boundary would describe them; no test waits for a clock.
#include "scenario/decider.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "abi/names.hpp"
#include "scenario/parse.hpp"
#include "scenario/pattern.hpp"

namespace sabot::scenario {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

abi::FunctionId function(std::string_view name) { return abi::find_function(name).value(); }

abi::Call allreduce(int rank, std::uint64_t nth = 0) {
  abi::Call call;
  call.function = function("AllReduce");
  call.comm_label = "c0";
  call.comm_ranks = 4;
  call.rank = rank;
  call.world_rank = rank;
  call.has_count = true;
  call.count = 1024;
  call.datatype = 7;
  call.bytes = 4096;
  call.redop = 0;
  call.nth = nth;
  return call;
}

Scenario scenario_of(std::string_view line) {
  Result<Scenario> scenario = parse_line(line, "test");
  EXPECT_TRUE(scenario.ok()) << scenario.error().message();
  return *std::move(scenario);
}

class Job {
 public:
  explicit Job(std::string_view line, std::string_view host = "node-1")
      : decider_(scenario_of(line), {.start_ns = 100 * kSecond, .host = host, .tallies = {}}) {}

  bool fires(const abi::Call& call) { return !enter(call).empty(); }
  Verdict enter(const abi::Call& call) { return decider_.enter(call, now_ns_, controls_); }
  // Which of the next `count` calls of this rank fire, 1-based.
  std::vector<int> firing_calls(int rank, int count) {
    std::vector<int> firing;
    for (int i = 1; i <= count; ++i)
      if (fires(allreduce(rank, static_cast<std::uint64_t>(i)))) firing.push_back(i);
    return firing;
  }

  Job& at(std::uint64_t seconds) {
    now_ns_ = (100 + seconds) * kSecond;
    return *this;
  }
  Job& turn_on(std::uint64_t switches) {
    controls_.switches = switches;
    return *this;
  }
  Decider& decider() { return decider_; }

 private:
  Decider decider_;
  std::uint64_t now_ns_ = 100 * kSecond;
  Controls controls_;
};

using Calls = std::vector<int>;

TEST(Decider, NthCountsTheCallsOfEachRankFromOne) {
  Job job("AllReduce[nth=3]=error(SystemError)");
  EXPECT_EQ(job.firing_calls(0, 5), Calls{3});
  EXPECT_EQ(job.firing_calls(1, 5), Calls{3});
  EXPECT_EQ(job.firing_calls(0, 5), Calls{}) << "the third call comes once";
}

TEST(Decider, NthCountsOnlyCallsThatMeetTheOtherConditions) {
  Job job("AllReduce[rank=1,bytes>=1MiB,nth=2]=error(SystemError)");
  abi::Call large = allreduce(1);
  large.bytes = 1 << 20;
  EXPECT_FALSE(job.fires(large));
  EXPECT_FALSE(job.fires(allreduce(1)));
  EXPECT_FALSE(job.fires(allreduce(0)));
  EXPECT_TRUE(job.fires(large));
}

TEST(Decider, BroadcastMeansItsOlderFormTooWhichCanBeNamedAlone) {
  abi::Call older = allreduce(0);
  older.function = function("Bcast");
  abi::Call newer = older;
  newer.function = function("Broadcast");
  EXPECT_TRUE(Job("Broadcast[nth=1]=error(SystemError)").fires(older));
  EXPECT_TRUE(Job("Broadcast[nth=1]=error(SystemError)").fires(newer));
  EXPECT_TRUE(Job("Bcast[nth=1]=error(SystemError)").fires(older));
  EXPECT_FALSE(Job("Bcast[nth=1]=error(SystemError)").fires(newer));
}

TEST(Decider, RangeAndEveryAreOneBasedToo) {
  EXPECT_EQ(Job("AllReduce[range=3-5]=error(SystemError)").firing_calls(0, 8), (Calls{3, 4, 5}));
  EXPECT_EQ(Job("AllReduce[range=3..]=error(SystemError)").firing_calls(0, 5), (Calls{3, 4, 5}));
  EXPECT_EQ(Job("AllReduce[range=..2]=error(SystemError)").firing_calls(0, 5), (Calls{1, 2}));
  EXPECT_EQ(Job("AllReduce[range=\"1,4\"]=error(SystemError)").firing_calls(0, 5), (Calls{1, 4}));
  EXPECT_EQ(Job("AllReduce[every=3]=error(SystemError)").firing_calls(0, 9), (Calls{3, 6, 9}));
  EXPECT_EQ(Job("AllReduce[every=3,range=4-8]=error(SystemError)").firing_calls(0, 9), Calls{6});
}

TEST(Decider, EachAttemptCountsAnew) {
  Job job("AllReduce[nth=1]=error(SystemError)");
  abi::Call call = allreduce(0);
  EXPECT_TRUE(job.fires(call));
  EXPECT_FALSE(job.fires(call));
  call.attempt = 1;
  EXPECT_TRUE(job.fires(call));
}

TEST(Decider, OneRankHasOneCountAcrossItsComms) {
  Job job("AllReduce[nth=2]=error(SystemError)");
  abi::Call in_child = allreduce(3);
  in_child.comm_label = "c0/s0";
  in_child.rank = 0;  // its rank there; the world rank stays 3
  EXPECT_FALSE(job.fires(allreduce(3)));
  EXPECT_TRUE(job.fires(in_child));
}

TEST(Decider, WithoutAWorldRankTheRankInTheCommCounts) {
  Job job("AllReduce[nth=2]=error(SystemError)");
  abi::Call first = allreduce(0);
  abi::Call second = allreduce(1);
  first.world_rank = second.world_rank = -1;
  EXPECT_FALSE(job.fires(first));
  EXPECT_FALSE(job.fires(second));
  EXPECT_TRUE(job.fires(first));
}

TEST(Decider, EveryConditionOfTheCallIsLookedAt) {
  const auto fires = [](std::string_view conditions, const abi::Call& call) {
    return Job("AllReduce|Broadcast|Send[" + std::string(conditions) + "]=error(SystemError)")
        .fires(call);
  };
  abi::Call call = allreduce(2);
  call.comm_name = "default_pg";
  EXPECT_TRUE(fires("rank=2", call));
  EXPECT_FALSE(fires("rank=1", call));
  EXPECT_TRUE(fires("world_rank>=2", call));
  EXPECT_FALSE(fires("world_rank=[0,1]", call));
  EXPECT_TRUE(fires("host='node-*'", call));
  EXPECT_FALSE(fires("host='spare-*'", call));
  EXPECT_TRUE(fires("comm=c0", call));
  EXPECT_FALSE(fires("comm='c0/*'", call));
  EXPECT_TRUE(fires("comm='default*'", call));
  EXPECT_FALSE(fires("comm='name:c0'", call));
  EXPECT_TRUE(fires("comm>=4", call));
  EXPECT_FALSE(fires("comm>4", call));
  EXPECT_TRUE(fires("bytes=4KiB", call));
  EXPECT_FALSE(fires("bytes<4KiB", call));
  EXPECT_TRUE(fires("count=1024", call));
  EXPECT_FALSE(fires("count!=1024", call));
  EXPECT_TRUE(fires("datatype=[float16,float32]", call));
  EXPECT_FALSE(fires("datatype=float16", call));
  EXPECT_TRUE(fires("redop=sum", call));
  EXPECT_FALSE(fires("redop=user", call));
  EXPECT_TRUE(fires("attempt=0", call));
  EXPECT_FALSE(fires("attempt>=1", call));
  EXPECT_TRUE(fires("captured=false", call));
  EXPECT_FALSE(fires("captured=true", call));
  EXPECT_FALSE(fires("root=0", call)) << "AllReduce has none";
  EXPECT_FALSE(fires("peer=0", call)) << "AllReduce has none";
}

TEST(Decider, RootPeerAndReductionsOfTheApplicationAreLookedAt) {
  abi::Call broadcast = allreduce(0);
  broadcast.function = function("Broadcast");
  broadcast.root = 3;
  EXPECT_TRUE(Job("Broadcast[root=3]=error(SystemError)").fires(broadcast));
  EXPECT_FALSE(Job("Broadcast[root=0]=error(SystemError)").fires(broadcast));
  abi::Call send = allreduce(0);
  send.function = function("Send");
  send.peer = 1;
  EXPECT_TRUE(Job("any p2p[peer!=0]=error(SystemError)").fires(send));
  EXPECT_FALSE(Job("any p2p[peer=0]=error(SystemError)").fires(send));
  abi::Call created = allreduce(0);
  created.redop = 17;
  EXPECT_TRUE(Job("AllReduce[redop=user]=error(SystemError)").fires(created));
  EXPECT_FALSE(Job("AllReduce[redop=avg]=error(SystemError)").fires(created));
}

TEST(Decider, ACallWithoutAValueMeetsNoConditionOnIt) {
  abi::Call unknown = allreduce(-1);
  unknown.world_rank = -1;
  unknown.comm_ranks = 0;
  EXPECT_FALSE(Job("AllReduce[rank>=0]=error(SystemError)").fires(unknown));
  EXPECT_FALSE(Job("AllReduce[world_rank>=0]=error(SystemError)").fires(unknown));
  EXPECT_FALSE(Job("AllReduce[comm>=0]=error(SystemError)").fires(unknown));
  EXPECT_TRUE(Job("AllReduce=error(SystemError)").fires(unknown));
}

TEST(Decider, QuestionsMatchOnlyWhenTheyAreNamed) {
  abi::Call question = allreduce(0);
  question.function = function("CommGetAsyncError");
  Job any("any=error(SystemError)");
  EXPECT_FALSE(any.decider().is_interested(question.function));
  EXPECT_FALSE(any.fires(question));
  EXPECT_TRUE(Job("CommGetAsyncError=error(SystemError)").fires(question));
}

TEST(Decider, GroupsOfCallsAreTheirKinds) {
  const auto interested = [](std::string_view group, std::string_view name) {
    Job job(std::string(group) + "=error(SystemError)");
    return job.decider().is_interested(function(name));
  };
  EXPECT_TRUE(interested("any collective", "AllReduce"));
  EXPECT_FALSE(interested("any collective", "Send"));
  EXPECT_TRUE(interested("init", "CommInitRankConfig"));
  EXPECT_TRUE(interested("init", "CommSplit"));
  EXPECT_FALSE(interested("init", "CommDestroy"));
  EXPECT_TRUE(interested("teardown", "CommAbort"));
  EXPECT_TRUE(interested("group", "GroupEnd"));
  EXPECT_TRUE(interested("memory", "CommWindowRegister"));
  EXPECT_TRUE(interested("any one-sided", "PutSignal"));
  EXPECT_TRUE(interested("redop", "RedOpDestroy"));
  EXPECT_TRUE(interested("any", "GetUniqueId"));
}

TEST(Decider, AFaultOnAnotherFunctionIsNoneOfOurBusiness) {
  Job job("AllGather=error(SystemError)");
  EXPECT_FALSE(job.decider().is_interested(function("AllReduce")));
  EXPECT_TRUE(job.decider().is_interested(function("AllGather")));
  EXPECT_FALSE(job.fires(allreduce(0)));
  EXPECT_EQ(job.decider().tally(0).calls, 0u);
}

TEST(Decider, FaultsFireInFileOrder) {
  Job job(
      "a: AllReduce[rank=0]=error(SystemError); b: any=error(RemoteError); "
      "c: AllReduce[rank=1]=error(InternalError)");
  std::vector<std::uint32_t> order;
  for (const Firing& firing : job.enter(allreduce(0))) order.push_back(firing.fault);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Decider, TheFirstErrorThatIsAllowedWinsAndLaterOnesAreNotAsked) {
  Job job(
      "a: AllReduce=error(SystemError); b: AllReduce=error(RemoteError); "
      "c: AllReduce=error(InternalError)");
  std::vector<std::uint32_t> asked;
  const Verdict kept = job.decider().settle(job.enter(allreduce(0)), [&](const Firing& firing) {
    asked.push_back(firing.fault);
    return firing.fault != 0;  // the budget of the first is spent
  });
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.begin()->fault, 1u);
  EXPECT_EQ(kept.begin()->number, 1u);
  EXPECT_EQ(job.decider().tally(0).fired, 0u);
  EXPECT_EQ(job.decider().tally(1).fired, 1u);
  EXPECT_EQ(job.decider().tally(2).wanted, 1u);
}

TEST(Decider, ARetiredFaultIsNotConsideredAnyMore) {
  Job job("AllReduce=error(SystemError)");
  EXPECT_TRUE(job.fires(allreduce(0)));
  job.decider().retire(0);
  EXPECT_FALSE(job.decider().is_interested(function("AllReduce")));
  EXPECT_FALSE(job.fires(allreduce(0)));
}

TEST(Decider, AfterIsMeasuredFromTheStart) {
  Job job("AllReduce[after=30s]=error(SystemError)");
  EXPECT_FALSE(job.at(0).fires(allreduce(0)));
  EXPECT_FALSE(job.at(29).fires(allreduce(0)));
  EXPECT_TRUE(job.at(30).fires(allreduce(0)));
}

TEST(Decider, AfterFirstCallIsMeasuredFromTheFirstCallOfAnyFunction) {
  Job job("AllReduce[after_first_call=10s]=error(SystemError)");
  abi::Call first = allreduce(0);
  first.function = function("GetVersion");
  EXPECT_TRUE(job.decider().is_interested(first.function)) << "the first call has to be seen";
  EXPECT_FALSE(job.at(50).fires(first));
  EXPECT_FALSE(job.decider().is_interested(first.function));
  EXPECT_FALSE(job.at(59).fires(allreduce(0)));
  EXPECT_TRUE(job.at(60).fires(allreduce(0)));
}

TEST(Decider, CountingBeginsWhenTheMomentHasCome) {
  Job timed("AllReduce[after=30s,nth=2]=error(SystemError)");
  EXPECT_EQ(timed.at(0).firing_calls(0, 5), Calls{});
  EXPECT_EQ(timed.at(30).firing_calls(0, 5), Calls{2});
  Job switched("AllReduce[switch=chaos,nth=1]=error(SystemError)");
  EXPECT_EQ(switched.firing_calls(0, 5), Calls{});
  EXPECT_EQ(switched.turn_on(1).firing_calls(0, 5), Calls{1});
}

TEST(Decider, SwitchesAreBitsInOrderOfFirstUse) {
  Job job(
      "AllReduce[switch=a]=error(SystemError); AllReduce[switch=b]=error(RemoteError); "
      "AllReduce[switch=a]=error(InternalError)");
  EXPECT_EQ(job.decider().switch_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(job.enter(allreduce(0)).size(), 0u);
  EXPECT_EQ(job.turn_on(0b01).enter(allreduce(0)).size(), 2u);
  EXPECT_EQ(job.turn_on(0b10).enter(allreduce(0)).size(), 1u);
}

TEST(Decider, ProbabilityDecidesTheSameCallsInEveryRun) {
  const std::string_view line = "seed=42;AllReduce[probability=0.1]=error(SystemError)";
  const Calls once = Job(line).firing_calls(0, 1000);
  EXPECT_EQ(Job(line).firing_calls(0, 1000), once);
  EXPECT_GT(once.size(), 60u);
  EXPECT_LT(once.size(), 140u);
  EXPECT_NE(Job(line).firing_calls(1, 1000), once) << "another rank, other calls";
  EXPECT_NE(Job("seed=43;AllReduce[probability=0.1]=error(SystemError)").firing_calls(0, 1000),
            once);
  EXPECT_NE(Job("seed=42;b:AllReduce[probability=0.1]=error(SystemError)").firing_calls(0, 1000),
            once);
}

TEST(Decider, ProbabilityDoesNotDependOnWhatOtherRanksAndCommsDo) {
  const std::string_view line = "seed=42;AllReduce[probability=0.1]=error(SystemError)";
  const Calls alone = Job(line).firing_calls(0, 300);
  Job busy(line);
  Calls among_others;
  for (int i = 1; i <= 300; ++i) {
    abi::Call other_comm = allreduce(0, static_cast<std::uint64_t>(i));
    other_comm.comm_label = "c1";
    busy.enter(other_comm);
    busy.enter(allreduce(1, static_cast<std::uint64_t>(i)));
    if (busy.fires(allreduce(0, static_cast<std::uint64_t>(i)))) among_others.push_back(i);
  }
  EXPECT_EQ(among_others, alone);
}

TEST(Decider, ProbabilityOneIsAlwaysAndZeroIsNever) {
  EXPECT_EQ(Job("AllReduce[probability=1]=error(SystemError)").firing_calls(0, 3),
            (Calls{1, 2, 3}));
  EXPECT_EQ(Job("AllReduce[probability=0]=error(SystemError)").firing_calls(0, 1000), Calls{});
}

TEST(Decider, ARestartDrawsAnew) {
  Job job("AllReduce[probability=0.5]=error(SystemError)");
  Calls first;
  Calls second;
  for (int i = 1; i <= 64; ++i) {
    abi::Call call = allreduce(0, static_cast<std::uint64_t>(i));
    if (job.fires(call)) first.push_back(i);
    call.attempt = 1;
    if (job.fires(call)) second.push_back(i);
  }
  EXPECT_NE(first, second) << "otherwise every restart would die at the same call";
}

TEST(Decider, ManyThreadsGetEachNumberOnce) {
  Job job("AllReduce[every=10]=error(SystemError)");
  std::atomic<int> fired{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        if (!job.decider().enter(allreduce(0), 0).empty()) ++fired;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fired, 400);
  EXPECT_EQ(job.decider().tally(0).matched, 4000u);
  EXPECT_EQ(job.decider().tally(0).match_max, 4000u);
}

TEST(Decider, MoreRanksThanCountersAreReportedNotMiscounted) {
  Job job("AllReduce[nth=1]=error(SystemError)");
  for (int rank = 0; rank < static_cast<int>(kCountersMax); ++rank)
    EXPECT_TRUE(job.fires(allreduce(rank))) << rank;
  EXPECT_FALSE(job.fires(allreduce(static_cast<int>(kCountersMax))));
  EXPECT_EQ(job.decider().tally(0).ranks_dropped, 1u);
}

TEST(Decider, TalliesCanLieInMemoryOfTheCaller) {
  std::array<FaultTally, 1> mapped{};
  Decider decider(scenario_of("AllReduce[rank=1]=error(SystemError)"),
                  {.start_ns = 0, .host = "", .tallies = mapped});
  decider.enter(allreduce(0), 0);
  decider.settle(decider.enter(allreduce(1), 0), [](const Firing&) { return true; });
  EXPECT_EQ(mapped[0].calls, 2u);
  EXPECT_EQ(mapped[0].only_failed[index_of(Condition::kRank)], 1u);
  EXPECT_EQ(mapped[0].fired, 1u);
}

TEST(Decider, SixtyFourFaultsFireAtOnce) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += "AllReduce=error(SystemError);";
  Job job(line);
  EXPECT_EQ(job.enter(allreduce(0)).size(), 64u);
  const Result<Scenario> more = parse_line(line + "AllReduce=error(SystemError)", "test");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().message().substr(0, 39), "test: key 'fault': more than 64 faults\n");
}

TEST(Pattern, StarIsAnyTextAndQuestionMarkIsOneCharacter) {
  EXPECT_TRUE(matches_pattern("node-1*", "node-17.cluster"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a?c*e", "abcdde"));
  EXPECT_TRUE(matches_pattern("*a*b", "aab"));
  EXPECT_FALSE(matches_pattern("node-?", "node-17"));
  EXPECT_FALSE(matches_pattern("", "x"));
  EXPECT_FALSE(matches_pattern("a*b", "abc"));
  EXPECT_TRUE(matches_pattern("c0/*", "c0/s1/s0"));
  EXPECT_FALSE(matches_pattern("c0/*", "c0"));
}

}  // namespace
}  // namespace sabot::scenario
