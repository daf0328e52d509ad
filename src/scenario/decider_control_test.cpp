// What people can do to faults while a job runs, what a call can bear at once, and that the short
// cuts of the decider decide what the long way decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/decider.hpp"
#include "scenario/parse.hpp"

namespace sabot::scenario {
namespace {

abi::Call allreduce(int rank, std::uint64_t nth = 0) {
  abi::Call call;
  call.function = *abi::find_function("AllReduce");
  call.comm_label = "c0";
  call.comm_ranks = 4;
  call.rank = call.world_rank = rank;
  call.has_count = true;
  call.count = 1024;
  call.datatype = 7;
  call.bytes = 4096;
  call.redop = 0;
  call.nth = nth;
  return call;
}

class Job {
 public:
  explicit Job(std::string_view line) : decider_(parse_line(line, "test").value(), Context{}) {}

  Verdict enter(const abi::Call& call) { return decider_.enter(call, 0, controls_); }
  // Which of the next `count` calls of this rank fire, 1-based.
  std::vector<int> firing_calls(int rank, int count) {
    std::vector<int> firing;
    for (int i = 1; i <= count; ++i)
      if (!enter(allreduce(rank)).empty()) firing.push_back(i);
    return firing;
  }
  Job& arm(std::uint64_t armed) {
    controls_.armed = armed;
    ++controls_.generation;
    return *this;
  }
  Job& request(std::uint64_t fire) {
    controls_.fire = fire;
    return *this;
  }
  Decider& decider() { return decider_; }
  Controls& controls() { return controls_; }

 private:
  Decider decider_;
  Controls controls_;
};

using Calls = std::vector<int>;

std::vector<std::uint32_t> faults_of(const Verdict& verdict) {
  std::vector<std::uint32_t> faults;
  for (const Firing& firing : verdict) faults.push_back(firing.fault);
  return faults;
}

TEST(Arming, AFaultThatIsNotArmedDoesNothingUntilItIs) {
  Job job("x: AllReduce[armed=false]=error(SystemError)");
  EXPECT_EQ(job.firing_calls(0, 5), Calls{});
  EXPECT_EQ(job.arm(1).firing_calls(0, 3), (Calls{1, 2, 3}));
  EXPECT_EQ(job.arm(0).firing_calls(0, 3), Calls{});
  EXPECT_EQ(job.decider().tally(0).unarmed, 8u);
  EXPECT_EQ(job.decider().tally(0).matched, 3u);
}

TEST(Arming, CountingBeginsWhenTheFaultIsArmedAndBeginsAnewEachTime) {
  Job job("x: AllReduce[armed=false,nth=2]=error(SystemError)");
  EXPECT_EQ(job.firing_calls(0, 5), Calls{});
  EXPECT_EQ(job.arm(1).firing_calls(0, 5), Calls{2});
  EXPECT_EQ(job.arm(0).firing_calls(0, 5), Calls{});
  EXPECT_EQ(job.arm(1).firing_calls(0, 5), Calls{2});
}

TEST(Arming, ArmingOneFaultLeavesTheCountOfItsFellowsAlone) {
  Job job(
      "a: AllReduce[nth=4]=error(SystemError); b: AllReduce[armed=false,nth=2]=error(RemoteError); "
      "c: AllReduce[nth=5]=error(InternalError)");
  EXPECT_EQ(job.firing_calls(0, 2), Calls{});
  job.arm(0b111);
  EXPECT_EQ(faults_of(job.enter(allreduce(0))), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(faults_of(job.enter(allreduce(0))), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(faults_of(job.enter(allreduce(0))), (std::vector<std::uint32_t>{2}));
}

TEST(Arming, AnOlderStateOfTheControlsIsNotFollowed) {
  Job job("x: AllReduce[armed=false]=error(SystemError)");
  EXPECT_EQ(job.arm(1).arm(0).arm(1).firing_calls(0, 1), Calls{1});
  const Controls old{.switches = 0, .armed = 0, .generation = 2, .fire = 0};
  EXPECT_EQ(job.decider().enter(allreduce(0), 0, old).size(), 1u) << "another thread was late";
}

TEST(Arming, WithoutControlsTheScenarioSaysWhatIsArmed) {
  const Scenario scenario =
      parse_line("AllReduce=error(SystemError); AllReduce[armed=false]=error(SystemError)", "test")
          .value();
  EXPECT_EQ(armed_at_start(scenario), 0b01u);
  EXPECT_EQ(all_faults(scenario), 0b11u);
}

TEST(Firing, ARequestPassesOverCountsAndChanceAndTimeAndArming) {
  for (const char* conditions : {"nth=1000", "range='50..'", "every=1000", "probability=0",
                                 "after=1h", "after_first_call=1h", "armed=false"}) {
    Job job("x: AllReduce[" + std::string(conditions) + "]=error(SystemError)");
    EXPECT_TRUE(job.enter(allreduce(1)).empty()) << conditions;
    const Verdict verdict = job.request(1).enter(allreduce(1));
    ASSERT_EQ(verdict.size(), 1u) << conditions;
    EXPECT_TRUE(verdict.begin()->is_requested) << conditions;
  }
}

TEST(Firing, ARequestWaitsForACallThatMeetsTheConditionsOnIt) {
  Job job("x: AllReduce[rank=1,bytes>=1MiB,switch=go,nth=9]=error(SystemError)");
  job.request(1);
  abi::Call large = allreduce(1);
  large.bytes = 2 << 20;
  EXPECT_TRUE(job.enter(allreduce(1)).empty()) << "too small";
  EXPECT_TRUE(job.enter(large).empty()) << "its switch is off";
  job.controls().switches = 1;
  EXPECT_EQ(job.enter(large).size(), 1u);
  large.rank = 0;
  EXPECT_TRUE(job.enter(large).empty()) << "another rank";
}

TEST(Firing, ACallThatWouldFireAnywayLeavesTheRequestAlone) {
  Job job("x: AllReduce[nth=1]=error(SystemError)");
  const Verdict by_itself = job.request(1).enter(allreduce(0));
  ASSERT_EQ(by_itself.size(), 1u);
  EXPECT_FALSE(by_itself.begin()->is_requested);
  EXPECT_EQ(by_itself.begin()->number, 1u);
}

TEST(Firing, ASpentBudgetIsNotOverruled) {
  Job job("x: AllReduce[nth=9]=error(SystemError)");
  job.decider().retire(0);
  EXPECT_TRUE(job.request(1).enter(allreduce(0)).empty());
}

std::vector<std::uint32_t> settled(std::string_view line) {
  Job job(line);
  return faults_of(
      job.decider().settle(job.enter(allreduce(0)), [](const Firing&) { return true; }));
}

TEST(Settling, ACallBearsOneActionThatTakesItsPlaceAndAnyNumberOfOthers) {
  using Faults = std::vector<std::uint32_t>;
  EXPECT_EQ(settled("AllReduce=delay(1ms); AllReduce=error(SystemError); AllReduce=skip; "
                    "AllReduce=corrupt(nan,at=after); AllReduce=delay(2ms)"),
            (Faults{0, 1, 3, 4}));
  EXPECT_EQ(settled("AllReduce=skip; AllReduce=error(SystemError)"), Faults{0});
  EXPECT_EQ(settled("AllReduce=mismatch(count,to=1); AllReduce=exhaust(allocation)"), Faults{0});
  EXPECT_EQ(
      settled("AllReduce=exhaust(allocation); AllReduce=mismatch(count,to=1); "
              "AllReduce=crash(SIGKILL); AllReduce=link(cut); AllReduce=async_error(Timeout)"),
      (Faults{0, 2, 3, 4}));
}

TEST(Bits, AreTheSameInEveryRunAndDifferWithEverythingThatTheyDependOn) {
  const auto bits = [](std::string_view line, const abi::Call& call) {
    return Job(line).enter(call).begin()->bits;
  };
  const std::string_view line = "seed=1; x: AllReduce=corrupt(nan)";
  const std::uint64_t once = bits(line, allreduce(0, 7));
  EXPECT_EQ(bits(line, allreduce(0, 7)), once);
  EXPECT_NE(bits(line, allreduce(0, 8)), once);
  EXPECT_NE(bits(line, allreduce(1, 7)), once);
  EXPECT_NE(bits("seed=2; x: AllReduce=corrupt(nan)", allreduce(0, 7)), once);
  EXPECT_NE(bits("seed=1; y: AllReduce=corrupt(nan)", allreduce(0, 7)), once);
  abi::Call later = allreduce(0, 7);
  later.attempt = 1;
  EXPECT_NE(bits(line, later), once);
  abi::Call elsewhere = allreduce(0, 7);
  elsewhere.comm_label = "c1";
  EXPECT_NE(bits(line, elsewhere), once);
}

TEST(Bits, OfCallsThatADrawChoseAreNotBiasedByTheDraw) {
  Job job("AllReduce[probability=0.05]=corrupt(nan)");
  int high = 0;
  int all = 0;
  for (std::uint64_t nth = 1; nth <= 4000; ++nth) {
    for (const Firing& firing : job.enter(allreduce(0, nth))) {
      ++all;
      if (firing.bits >> 63U != 0) ++high;
    }
  }
  EXPECT_GT(all, 120);
  EXPECT_GT(high, all / 3) << "the chosen draws are the small ones; these bits are not they";
  EXPECT_LT(high, 2 * all / 3);
}

TEST(Uses, TellWhatTheCallerNeedNotFindOut) {
  Job plain("AllReduce[nth=1]=error(SystemError)");
  EXPECT_FALSE(plain.decider().uses_clock());
  EXPECT_FALSE(plain.decider().uses(Condition::kCaptured));
  EXPECT_TRUE(Job("AllReduce[after=1s]=error(SystemError)").decider().uses_clock());
  EXPECT_TRUE(Job("AllReduce[after_first_call=1s]=hang").decider().uses_clock());
  EXPECT_TRUE(Job("AllReduce[captured=false]=hang").decider().uses(Condition::kCaptured));
}

TEST(Sense, FunctionsOfAGroupOnWhichTheActionMakesNoneAreNoneOfOurBusiness) {
  Job job("any=mismatch(redop,to=max)");
  EXPECT_TRUE(job.decider().is_interested(*abi::find_function("AllReduce")));
  EXPECT_FALSE(job.decider().is_interested(*abi::find_function("AllGather")));
  EXPECT_FALSE(job.decider().is_interested(*abi::find_function("CommInitRank")));
}

// One fault, decided the long way.
class Plain {
 public:
  explicit Plain(Trigger trigger) : trigger_(std::move(trigger)) {}
  bool fires(const abi::Call& call) {
    ++calls;
    const auto has = [](const NumberSet& set, std::uint64_t number) {
      return set.empty() || set.contains(number);
    };
    if (!has(trigger_.rank, static_cast<std::uint64_t>(call.rank)) ||
        !has(trigger_.bytes, call.bytes))
      return false;
    ++matched;
    const std::uint64_t number = ++numbers_[static_cast<std::size_t>(call.rank)];
    return (!trigger_.nth || *trigger_.nth == number) && has(trigger_.range, number) &&
           (!trigger_.every || number % *trigger_.every == 0);
  }
  std::uint64_t calls = 0;
  std::uint64_t matched = 0;

 private:
  Trigger trigger_;
  std::array<std::uint64_t, 4> numbers_{};
};

std::string random_line(Random& random) {
  constexpr std::string_view kStatic[] = {"rank=1", "rank!=2", "bytes>=8KiB", "bytes<8KiB"};
  constexpr std::string_view kCounts[] = {"nth=1",
                                          "nth=7",
                                          "every=3",
                                          "range=3-9",
                                          "range='2,5-6,40..'",
                                          "range=10..",
                                          "every=4,range='6..30'"};
  std::string line;
  for (std::uint64_t faults = 1 + random.below(12); faults > 0; --faults) {
    line += "AllReduce[";
    if (random.below(3) != 0) line += std::string(kStatic[random.below(std::size(kStatic))]) + ",";
    if (random.below(4) != 0) line += std::string(kCounts[random.below(std::size(kCounts))]) + ",";
    if (line.back() == ',') line.pop_back();
    line += "]=error(SystemError);";
  }
  return line;
}

TEST(Shortcuts, DecideAndTallyAsTheLongWayDoes) {
  Random random(20261130);
  for (int round = 0; round < 200; ++round) {
    const std::string line = random_line(random);
    Job job(line);
    std::vector<Plain> plain;
    for (const Fault& fault : job.decider().scenario().faults) plain.emplace_back(fault.when);
    for (int i = 0; i < 300; ++i) {
      abi::Call call = allreduce(static_cast<int>(random.below(4)));
      call.bytes = 4096 << random.below(3);
      std::vector<std::uint32_t> expected;
      for (std::uint32_t f = 0; f < plain.size(); ++f)
        if (plain[f].fires(call)) expected.push_back(f);
      ASSERT_EQ(faults_of(job.enter(call)), expected) << line << " call " << i;
    }
    for (std::uint32_t f = 0; f < plain.size(); ++f) {
      EXPECT_EQ(job.decider().tally(f).calls, plain[f].calls) << line;
      EXPECT_EQ(job.decider().tally(f).matched, plain[f].matched) << line;
    }
  }
}

TEST(Shortcuts, MoreClassesThanTheTableHoldsAreDecidedTheSame) {
  Job job("AllReduce[bytes>=4KiB,every=10]=error(SystemError)");
  int fired = 0;
  for (std::uint64_t i = 1; i <= 3 * kCallClassesMax; ++i) {
    abi::Call call = allreduce(0);
    call.bytes = 4096 + i;
    if (!job.enter(call).empty()) ++fired;
  }
  EXPECT_EQ(fired, static_cast<int>(3 * kCallClassesMax / 10));
  EXPECT_EQ(job.decider().tally(0).calls, 3 * kCallClassesMax);
  EXPECT_EQ(job.decider().tally(0).matched, 3 * kCallClassesMax);
}

TEST(Shortcuts, TalliesInMemoryOfTheCallerAreNeverFarBehind) {
  std::array<FaultTally, 1> mapped{};
  Decider decider(parse_line("AllReduce[rank=7]=error(SystemError)", "test").value(),
                  {.start_ns = 0, .host = "", .tallies = mapped});
  for (std::uint64_t calls = 1; calls <= 10'000; ++calls) {
    decider.enter(allreduce(0), 0);
    ASSERT_LE(mapped[0].calls, calls);
    ASSERT_GE(mapped[0].calls + mapped[0].calls / 64 + 1, calls);
  }
  decider.flush();
  EXPECT_EQ(mapped[0].calls, 10'000u);
  EXPECT_EQ(mapped[0].only_failed[index_of(Condition::kRank)], 10'000u);
}

TEST(Shortcuts, ThreadsThatShareARankMissNoNumberThatSomebodyWaitsFor) {
  for (int round = 0; round < 50; ++round) {
    Job job(
        "a: AllReduce[range='2-3,50,777,1500-1510']=error(SystemError); "
        "b: AllReduce[nth=1999]=error(SystemError)");
    std::array<std::atomic<int>, 2> fired{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i)
          for (const Firing& firing : job.decider().enter(allreduce(0), 0)) ++fired[firing.fault];
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fired[0], 15);
    EXPECT_EQ(fired[1], 1);
  }
}

}  // namespace
}  // namespace sabot::scenario
