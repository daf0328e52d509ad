// Why a fault did not fire, in full sentences.
#include "scenario/explain.hpp"

#include <gtest/gtest.h>

#include "abi/names.hpp"
#include "scenario/decider.hpp"
#include "scenario/parse.hpp"

namespace sabot::scenario {
namespace {

abi::Call allreduce(int rank) {
  abi::Call call;
  call.function = abi::find_function("AllReduce").value();
  call.comm_label = "c0";
  call.comm_ranks = 4;
  call.rank = call.world_rank = rank;
  call.has_count = true;
  call.count = 256;
  call.datatype = 7;
  call.bytes = 1024;
  call.redop = 0;
  return call;
}

// Three calls on each of four ranks, at 12 s.
std::string explain(std::string_view line) {
  Decider decider(parse_line(line, "test").value(),
                  {.start_ns = 0, .host = "node-1", .tallies = {}});
  for (int i = 0; i < 3; ++i)
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(decider.enter(allreduce(rank), 12'000'000'000).empty());
  return explain_unfired(decider.fault(0), decider.tally(0));
}

TEST(Explain, TheConditionThatAloneStoodInTheWayIsNamedWithWhatWasSeen) {
  EXPECT_EQ(
      explain("x: AllReduce[rank=7]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but rank (wanted 7, seen 0 "
      "to 3)");
  EXPECT_EQ(
      explain("x: AllReduce[bytes>=1MiB]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but bytes (wanted >=1MiB, "
      "seen 1KiB)");
  EXPECT_EQ(explain("x: AllReduce[datatype=[float16,bfloat16]]=error(SystemError)"),
            "fault \"x\" did not fire: closest: 12 calls matched everything but datatype (wanted "
            "float16|bfloat16, seen float32)");
  EXPECT_EQ(
      explain("x: AllReduce[redop=user]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but redop (wanted user, seen "
      "sum)");
  EXPECT_EQ(
      explain("x: AllReduce[after=30s]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but after (wanted 30s, seen "
      "12s)");
  EXPECT_EQ(
      explain("x: AllReduce[comm>=8]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but comm (wanted >=8, seen "
      "comms of 4 ranks)");
  EXPECT_EQ(
      explain("x: AllReduce[host='spare*']=error(SystemError)"),
      "fault \"x\" did not fire: closest: 12 calls matched everything but host (wanted spare*)");
  EXPECT_EQ(explain("x: AllReduce[captured=true]=error(SystemError)"),
            "fault \"x\" did not fire: closest: 12 calls matched everything but captured (wanted "
            "true, seen false)");
}

TEST(Explain, ASwitchThatWasOffIsToldWithTheCommandThatTurnsItOn) {
  EXPECT_EQ(explain("x: AllReduce[switch=chaos]=error(SystemError)"),
            "fault \"x\" did not fire: 12 calls matched, but the switch \"chaos\" was off; `sabot "
            "ctl RUN arm chaos` turns it on");
}

TEST(Explain, AFaultThatNobodyArmedIsToldWithTheCommandThatArmsIt) {
  EXPECT_EQ(
      explain("x: AllReduce[armed=false,rank=1]=error(SystemError)"),
      "fault \"x\" did not fire: 3 calls matched, but it was not armed; `sabot ctl RUN arm x` "
      "arms it");
  EXPECT_EQ(explain("x: AllReduce[armed=false,rank=7]=error(SystemError)"),
            "fault \"x\" did not fire: closest: 12 calls matched everything but rank (wanted 7, "
            "seen 0 to 3)");
}

TEST(Explain, TheConditionWithTheMostNearMissesComesFirst) {
  EXPECT_EQ(
      explain("x: AllReduce[rank=1,attempt=1]=error(SystemError)"),
      "fault \"x\" did not fire: closest: 3 calls matched everything but attempt (wanted 1, seen "
      "0)");
}

TEST(Explain, SeveralConditionsAreNamedTogetherWhereNoneStoodAlone) {
  EXPECT_EQ(
      explain("x: AllReduce[rank=7,attempt=1,bytes>=1KiB]=error(SystemError)"),
      "fault \"x\" did not fire: closest of 12 calls: one that failed rank (wanted 7) and attempt "
      "(wanted 1)");
}

TEST(Explain, CallsThatMatchedButWereTooFewAreCounted) {
  EXPECT_EQ(
      explain("x: AllReduce[nth=10]=error(SystemError)"),
      "fault \"x\" did not fire: 12 calls matched, at most 3 on one rank, but nth = 10 was not "
      "reached");
  EXPECT_EQ(
      explain("x: AllReduce[rank=1,range=5-8,every=2]=error(SystemError)"),
      "fault \"x\" did not fire: 3 calls matched, at most 3 on one rank, but range = 5-8 and every "
      "= 2 was not reached");
}

TEST(Explain, AnUnluckyProbabilityIsToldAsSuch) {
  EXPECT_EQ(explain("x: AllReduce[probability=0]=error(SystemError)"),
            "fault \"x\" did not fire: 12 calls matched, but none was drawn with probability 0.0");
}

TEST(Explain, AFunctionThatWasNeverCalledIsToldWithThoseThatWere) {
  EXPECT_EQ(explain("x: Broadcast|Bcast=error(SystemError)"),
            "fault \"x\" did not fire: no call of Broadcast|Bcast was made");
  const Scenario scenario = parse_line("x: Bcast=error(SystemError)", "test").value();
  const std::array<abi::FunctionId, 2> called{abi::find_function("Broadcast").value(),
                                              abi::find_function("AllReduce").value()};
  EXPECT_EQ(
      explain_unfired(scenario.faults[0], FaultTally{}, called),
      "fault \"x\" did not fire: no call of Bcast was made; the job called Broadcast, AllReduce");
}

TEST(Explain, ASpentBudgetIsToldAsSuch) {
  const Scenario scenario = parse_line("x: AllReduce[budget=2]=error(SystemError)", "test").value();
  FaultTally tally{};
  tally.calls = tally.matched = tally.counted = tally.wanted = 1;
  EXPECT_EQ(explain_unfired(scenario.faults[0], tally),
            "fault \"x\" did not fire: it wanted to fire 1 time, but its budget of 2 was spent");
}

TEST(Tally, ProcessesMergeBySumsAndExtremes) {
  const auto seen_by = [](int rank) {
    Decider decider(parse_line("x: AllReduce[rank=7]=error(SystemError)", "test").value(),
                    Context{});
    decider.enter(allreduce(rank), 0);
    return decider.tally(0);
  };
  FaultTally all{};
  merge(all, seen_by(3));
  merge(all, seen_by(0));
  const Scenario scenario = parse_line("x: AllReduce[rank=7]=error(SystemError)", "test").value();
  EXPECT_EQ(
      explain_unfired(scenario.faults[0], all),
      "fault \"x\" did not fire: closest: 2 calls matched everything but rank (wanted 7, seen 0 to "
      "3)");
}

}  // namespace
}  // namespace sabot::scenario
