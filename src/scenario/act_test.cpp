// What the arguments of an action become: each action with all it can say, and its defaults.
#include "scenario/act.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/parse.hpp"

namespace sabot::scenario {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// The act of a fault on AllReduce, Reduce or whatever the line names.
Act act(std::string_view line) {
  const Result<Scenario> scenario = parse_line(line, "test");
  EXPECT_TRUE(scenario.ok()) << scenario.error().message();
  return act_of(scenario->faults.at(0).action);
}

TEST(Act, AnErrorHasItsCodeAndItsMoment) {
  const Act before = act("AllReduce=error(SystemError)");
  EXPECT_EQ(before.kind, ActionKind::kError);
  EXPECT_EQ(before.result, 2);
  EXPECT_EQ(before.moment, Moment::kBefore);
  EXPECT_EQ(act("AllReduce=error(RemoteError,at=after)").moment, Moment::kAfter);
}

TEST(Act, AnAsynchronousErrorComesAtOnceUnlessItSaysWhen) {
  const Act at_once = act("AllReduce=async_error(RemoteError)");
  EXPECT_EQ(at_once.kind, ActionKind::kAsyncError);
  EXPECT_EQ(at_once.result, 6);
  EXPECT_EQ(at_once.duration_ns, 0u);
  EXPECT_EQ(act("AllReduce=async_error(RemoteError,after=5ms)").duration_ns, 5 * kMillisecond);
}

TEST(Act, ADelayHasASideAJitterAndASpread) {
  const Act plain = act("AllReduce=delay(200ms)");
  EXPECT_EQ(plain.duration_ns, 200 * kMillisecond);
  EXPECT_EQ(plain.jitter_ns, 0u);
  EXPECT_FALSE(plain.on_host);
  const Act full = act("AllReduce=delay(200ms,on=host,jitter=50ms,distribution=exponential)");
  EXPECT_EQ(full.jitter_ns, 50 * kMillisecond);
  EXPECT_EQ(full.spread, Spread::kExponential);
  EXPECT_TRUE(full.on_host);
  EXPECT_EQ(act("AllReduce=delay(1ms,jitter=1ms,distribution=normal)").spread, Spread::kNormal);
  EXPECT_EQ(act("AllReduce=delay(1ms,jitter=1ms)").spread, Spread::kUniform);
}

TEST(Act, AHangWithoutATimeHasNoLimit) {
  EXPECT_EQ(act("AllReduce=hang").duration_ns, 0u);
  EXPECT_EQ(act("AllReduce=hang(30s)").duration_ns, 30'000 * kMillisecond);
  EXPECT_TRUE(act("AllReduce=hang(true,on=host)").on_host);
}

TEST(Act, AMismatchKnowsWhatItPassesInstead) {
  const Act count = act("AllReduce=mismatch(count,to=17)");
  EXPECT_EQ(count.mismatch, MismatchKind::kCount);
  EXPECT_EQ(count.to_number, 17);
  const Act type = act("AllReduce=mismatch(datatype,to=float16)");
  EXPECT_EQ(type.mismatch, MismatchKind::kDatatype);
  EXPECT_EQ(type.to_number, 6);
  const Act redop = act("AllReduce=mismatch(redop,to=max)");
  EXPECT_EQ(redop.mismatch, MismatchKind::kRedop);
  EXPECT_EQ(redop.to_number, 2);
  const Act root = act("Reduce=mismatch(root,to=1)");
  EXPECT_EQ(root.mismatch, MismatchKind::kRoot);
  EXPECT_EQ(root.to_number, 1);
  const Act call = act("AllReduce=mismatch(call,to=AllGather)");
  EXPECT_EQ(call.mismatch, MismatchKind::kCall);
  EXPECT_EQ(call.to_function, abi::find_function("AllGather"));
}

TEST(Act, ACorruptionChangesOneElementUnlessItSaysHowMany) {
  const Act one = act("AllReduce=corrupt(bit-flip)");
  EXPECT_EQ(one.corrupt, CorruptKind::kBitFlip);
  EXPECT_EQ(one.elements, 1u);
  EXPECT_EQ(one.moment, Moment::kBefore);
  const Act scaled = act("AllReduce=corrupt(scale,by=1.5,elements=3,at=after)");
  EXPECT_EQ(scaled.corrupt, CorruptKind::kScale);
  EXPECT_EQ(scaled.elements, 3u);
  EXPECT_EQ(scaled.factor, 1.5);
  EXPECT_EQ(scaled.moment, Moment::kAfter);
  EXPECT_EQ(act("AllReduce=corrupt(nan)").corrupt, CorruptKind::kNan);
  EXPECT_EQ(act("AllReduce=corrupt(zero)").corrupt, CorruptKind::kZero);
  EXPECT_EQ(act("AllReduce=corrupt(stale,at=after)").corrupt, CorruptKind::kStale);
}

TEST(Act, ACrashIsASignalAnExitCodeOrAnAbort) {
  const Act killed = act("AllReduce=crash(SIGKILL)");
  EXPECT_EQ(killed.crash, CrashKind::kSignal);
  EXPECT_EQ(killed.crash_value, SIGKILL);
  EXPECT_EQ(act("AllReduce=crash(SIGSTOP)").crash_value, SIGSTOP);
  EXPECT_EQ(act("AllReduce=crash(SIGSEGV)").crash_value, SIGSEGV);
  const Act left = act("AllReduce=crash(3,at=after)");
  EXPECT_EQ(left.crash, CrashKind::kExit);
  EXPECT_EQ(left.crash_value, 3);
  EXPECT_EQ(left.moment, Moment::kAfter);
  EXPECT_EQ(act("AllReduce=crash(abort)").crash, CrashKind::kAbort);
}

TEST(Act, ALinkNamesItsPeersOrMeansAll) {
  const Act all = act("AllReduce=link(cut)");
  EXPECT_EQ(all.link, LinkKind::kCut);
  EXPECT_EQ(all.peers, kAllPeers);
  EXPECT_EQ(all.limit_ns, 0u);
  const Act some = act("AllReduce=link(drop,peer=\"0,2-3\",for=10s)");
  EXPECT_EQ(some.link, LinkKind::kDrop);
  EXPECT_EQ(some.peers, 0b1101u);
  EXPECT_EQ(some.limit_ns, 10'000 * kMillisecond);
  EXPECT_EQ(act("AllReduce=link(delay,by=5ms)").duration_ns, 5 * kMillisecond);
  const Act slow = act("AllReduce=link(throttle,rate=1MiB)");
  EXPECT_EQ(slow.link, LinkKind::kThrottle);
  EXPECT_EQ(slow.rate_bytes_per_s, 1u << 20);
  EXPECT_EQ(act("AllReduce=link(partition,peer=1)").link, LinkKind::kPartition);
}

TEST(Act, AShortageHasTheCodeOfItsKind) {
  const Act memory = act("AllReduce=exhaust(allocation)");
  EXPECT_EQ(memory.exhaust, ExhaustKind::kAllocation);
  EXPECT_EQ(memory.result, 1) << "unhandled CUDA error";
  const Act registration = act("CommRegister=exhaust(registration)");
  EXPECT_EQ(registration.exhaust, ExhaustKind::kRegistration);
  EXPECT_EQ(registration.result, 2) << "system error";
}

TEST(Act, WithoutAStreamTheCallerIsHeld) {
  const Act delay = act("any=delay(1ms)");
  EXPECT_FALSE(acts_on_host(delay, *abi::find_function("AllReduce")));
  EXPECT_TRUE(acts_on_host(delay, *abi::find_function("CommInitRank")));
  EXPECT_TRUE(acts_on_host(act("any=delay(1ms,on=host)"), *abi::find_function("AllReduce")));
}

struct Drawn {
  std::uint64_t least, most;
  double mean;
};
Drawn drawn(const Act& act) {
  Drawn seen{~0ULL, 0, 0};
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t ns = drawn_duration_ns(act, mix(static_cast<std::uint64_t>(i)));
    seen.least = std::min(seen.least, ns);
    seen.most = std::max(seen.most, ns);
    seen.mean += static_cast<double>(ns) / kDraws / kMillisecond;
  }
  return seen;
}

TEST(Jitter, UniformStaysWithinItsBoundsAndFillsThem) {
  const Drawn seen = drawn(act("AllReduce=delay(200ms,jitter=50ms)"));
  EXPECT_GE(seen.least, 150 * kMillisecond);
  EXPECT_LE(seen.least, 151 * kMillisecond);
  EXPECT_LE(seen.most, 250 * kMillisecond);
  EXPECT_GE(seen.most, 249 * kMillisecond);
  EXPECT_NEAR(seen.mean, 200, 1);
}

TEST(Jitter, NormalKeepsItsMeanAndEndsAtSixDeviations) {
  const Drawn seen = drawn(act("AllReduce=delay(200ms,jitter=10ms,distribution=normal)"));
  EXPECT_NEAR(seen.mean, 200, 0.5);
  EXPECT_GE(seen.least, 140 * kMillisecond);
  EXPECT_LE(seen.least, 175 * kMillisecond) << "no spread";
  EXPECT_LE(seen.most, 260 * kMillisecond);
  EXPECT_GE(seen.most, 225 * kMillisecond) << "no spread";
}

TEST(Jitter, ExponentialOnlyAddsAndHasTheJitterForItsMean) {
  const Drawn seen = drawn(act("AllReduce=delay(200ms,jitter=50ms,distribution=exponential)"));
  EXPECT_GE(seen.least, 200 * kMillisecond);
  EXPECT_NEAR(seen.mean, 250, 2);
  EXPECT_GE(seen.most, 500 * kMillisecond) << "no tail";
}

TEST(Jitter, NeverGoesBelowZeroAndTheSameBitsDrawTheSame) {
  const Act wide = act("AllReduce=delay(1ms,jitter=10s)");
  EXPECT_EQ(drawn(wide).least, 0u);
  EXPECT_EQ(drawn_duration_ns(wide, 42), drawn_duration_ns(wide, 42));
  EXPECT_NE(drawn_duration_ns(wide, 42), drawn_duration_ns(wide, 43));
  EXPECT_EQ(drawn_duration_ns(act("AllReduce=delay(7ms)"), 42), 7 * kMillisecond);
}

}  // namespace
}  // namespace sabot::scenario
