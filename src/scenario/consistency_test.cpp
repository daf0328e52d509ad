// Actions that cannot do what they say at the calls that the trigger names, each with its text.
#include <gtest/gtest.h>

#include "abi/names.hpp"
#include "scenario/names.hpp"
#include "scenario/parse.hpp"
#include "scenario/sense.hpp"

namespace sabot::scenario {
namespace {

// What a line is refused with, without the caret; "accepted" if it is not.
std::string refusal(std::string_view line) {
  const Result<Scenario> scenario = parse_line(line, "line");
  if (scenario.ok()) return "accepted";
  const std::string& message = scenario.error().message();
  return message.substr(0, message.find('\n'));
}

// The same with four ranks, which a line cannot say.
std::string refusal_of_four(const std::string& when, const std::string& action) {
  const Result<Scenario> scenario = parse_toml(
      "sabot = 1\nranks = 4\n[[fault]]\nwhen = { " + when + " }\ndo = { " + action + " }\n",
      "s.toml");
  return scenario.ok() ? "accepted" : scenario.error().message();
}

TEST(Sense, AFunctionWithoutAResultCannotBeDisturbed) {
  EXPECT_EQ(refusal("GetErrorString=error(SystemError)"),
            "line: key 'call': 'GetErrorString' returns no result code, so it cannot be made to "
            "return an error");
  EXPECT_EQ(refusal("GetErrorString=delay(1ms)"),
            "line: key 'call': 'GetErrorString' returns no result code; only calls that do can be "
            "disturbed");
}

TEST(Sense, OnlyWhatNobodyBuildsOnCanBeSkipped) {
  EXPECT_EQ(refusal("CommInitRank=skip"),
            "line: key 'call': 'CommInitRank' makes or tells something that its caller goes on to "
            "use, so it cannot be skipped");
  EXPECT_EQ(refusal("GroupEnd=skip"),
            "line: key 'call': 'GroupEnd' opens or closes a group, which would stay unbalanced; "
            "skip the calls in it");
  EXPECT_EQ(refusal("AllReduce=skip"), "accepted");
  EXPECT_EQ(refusal("Send=skip"), "accepted");
  EXPECT_EQ(refusal("CommDestroy=skip"), "accepted");
  EXPECT_EQ(refusal("CommAbort=skip"), "accepted");
}

TEST(Sense, AnAsynchronousErrorNeedsACommunicatorThatLives) {
  EXPECT_EQ(refusal("GetUniqueId=async_error(RemoteError)"),
            "line: key 'call': 'GetUniqueId' has no communicator that could report an error later");
  EXPECT_EQ(refusal("CommDestroy=async_error(RemoteError)"),
            "line: key 'call': 'CommDestroy' ends the communicator, which then reports nothing");
  EXPECT_EQ(refusal("CommSplit=async_error(RemoteError)"), "accepted");
}

TEST(Sense, AMismatchNeedsTheArgumentThatDiffers) {
  EXPECT_EQ(refusal("AllGather=mismatch(redop,to=max)"),
            "line: key 'call': 'AllGather' has no reduction that could differ");
  EXPECT_EQ(refusal("AllReduce=mismatch(root,to=1)"),
            "line: key 'call': 'AllReduce' has no root that could differ");
  EXPECT_EQ(refusal("CommInitRank=mismatch(count,to=1)"),
            "line: key 'call': 'CommInitRank' exchanges nothing with peers, so it cannot disagree "
            "with them");
  EXPECT_EQ(refusal("Send=mismatch(call,to=AllReduce)"),
            "line: key 'call': 'Send' is no collective, so no other can take its place");
  EXPECT_EQ(refusal("AllReduce=mismatch(call,to=AllReduce)"),
            "line: key 'call': 'AllReduce' would be called instead of itself");
  EXPECT_EQ(refusal("PutSignal=mismatch(count,to=1)"),
            "line: key 'call': 'PutSignal' is one-sided: its peer expects nothing that could "
            "differ");
  EXPECT_EQ(refusal("Send=mismatch(count,to=1)"), "accepted");
}

TEST(Sense, ACorruptionNeedsDataOfItsMoment) {
  EXPECT_EQ(
      refusal("Recv=corrupt(nan)"),
      "line: key 'call': 'Recv' has no input that could be corrupted; write at = \"after\" for "
      "its output");
  EXPECT_EQ(refusal("Send=corrupt(nan,at=after)"),
            "line: key 'call': 'Send' has no output that could be corrupted");
  EXPECT_EQ(refusal("CommDestroy=corrupt(nan)"),
            "line: key 'call': 'CommDestroy' has no input that could be corrupted");
  EXPECT_EQ(refusal("Recv=corrupt(nan,at=after)"), "accepted");
  EXPECT_EQ(refusal("Bcast=corrupt(nan)"), "accepted");
  EXPECT_EQ(refusal("Bcast=corrupt(nan,at=after)"), "accepted");
}

TEST(Sense, ALinkNeedsACommunicatorAndAShortageSomethingThatRunsShort) {
  EXPECT_EQ(refusal("GroupStart=link(cut)"),
            "line: key 'call': 'GroupStart' has no communicator with links");
  EXPECT_EQ(refusal("CommDestroy=exhaust(allocation)"),
            "line: key 'call': 'CommDestroy' allocates nothing");
  EXPECT_EQ(refusal("AllReduce=exhaust(registration)"),
            "line: key 'call': 'AllReduce' registers nothing");
  EXPECT_EQ(refusal("MemAlloc=exhaust(allocation)"), "accepted");
  EXPECT_EQ(refusal("CommSplit=exhaust(allocation)"), "accepted");
  EXPECT_EQ(refusal("CommWindowRegister=exhaust(registration)"), "accepted");
}

TEST(Sense, AGroupOfFunctionsStandsForThoseOnWhichTheActionMakesSense) {
  EXPECT_EQ(refusal("any=mismatch(redop,to=max)"), "accepted");
  EXPECT_EQ(refusal("any=corrupt(nan)"), "accepted");
  EXPECT_EQ(refusal("init=skip"),
            "line: key 'call': 'init' makes or tells something that its caller goes on to use, so "
            "it cannot be skipped");
  EXPECT_EQ(refusal("any[root=0]=mismatch(redop,to=max)"), "accepted") << "Reduce has both";
  EXPECT_EQ(refusal("any p2p[redop=sum]=mismatch(count,to=1)"),
            "line: key 'redop': 'any p2p' has no reduction");
}

TEST(Consistency, AStreamIsNeededForWhatIsPutOnIt) {
  EXPECT_EQ(
      refusal("CommInitRank=delay(1ms,on=stream)"),
      "line: key 'on': 'CommInitRank' puts nothing on a stream, so only the caller can be held; "
      "leave 'on' out, or write \"host\"");
  EXPECT_EQ(refusal("CommInitRank=delay(1ms)"), "accepted");
  EXPECT_EQ(refusal("CommInitRank=hang(true,on=host)"), "accepted");
  EXPECT_EQ(refusal("AllReduce=hang(true,on=stream)"), "accepted");
}

TEST(Consistency, WhatIsPassedInsteadMustDifferFromWhatIsAskedFor) {
  EXPECT_EQ(refusal("AllReduce[redop=max]=mismatch(redop,to=max)"),
            "line: key 'to': is what the trigger asks for, so nothing would differ");
  EXPECT_EQ(refusal("AllReduce[count=7]=mismatch(count,to=7)"),
            "line: key 'to': is what the trigger asks for, so nothing would differ");
  EXPECT_EQ(refusal("AllReduce[datatype=half]=mismatch(datatype,to=float16)"),
            "line: key 'to': is what the trigger asks for, so nothing would differ");
  EXPECT_EQ(refusal("Reduce[root=0]=mismatch(root,to=0)"),
            "line: key 'to': is what the trigger asks for, so nothing would differ");
  EXPECT_EQ(refusal("AllReduce[count<=100]=mismatch(count,to=101)"),
            "line: key 'to': is larger than any count that the trigger asks for, and the buffers "
            "hold no more; ask for a smaller one");
  EXPECT_EQ(refusal_of_four("call = \"Reduce\"", "mismatch = \"root\", to = 4"),
            "s.toml:5: key 'do.to': '4' cannot exist: the scenario has ranks = 4, that is 0 to 3");
}

TEST(Consistency, PeersOfALinkAreOtherRanksOfTheJob) {
  EXPECT_EQ(
      refusal_of_four("call = \"AllReduce\"", "link = \"cut\", peer = 4"),
      "s.toml:5: key 'do.peer': '4' cannot exist: the scenario has ranks = 4, that is 0 to 3");
  EXPECT_EQ(refusal("AllReduce[rank=1]=link(cut,peer=1)"),
            "line: key 'peer': a rank has no link to itself");
  EXPECT_EQ(refusal("AllReduce=link(cut,peer=64)"),
            "line: key 'peer': only the ranks 0 to 63 can be named; leave it out for all peers");
  EXPECT_EQ(refusal("AllReduce[rank=1]=link(cut,peer=[0,1])"), "accepted");
}

TEST(Consistency, AmountsThatDoNothingAreRefused) {
  EXPECT_EQ(refusal("AllReduce=delay(0s)"),
            "line: key 'delay': a delay of no time changes nothing");
  EXPECT_EQ(refusal("AllReduce=delay(0s,jitter=5ms)"), "accepted");
  EXPECT_EQ(refusal("AllReduce=delay(5ms,jitter=0s)"),
            "line: key 'jitter': a jitter of no time changes nothing; leave it out");
  EXPECT_EQ(refusal("AllReduce=hang(0s)"),
            "line: key 'hang': a hang of no time changes nothing; write true for one without a "
            "limit");
  EXPECT_EQ(refusal("AllReduce=link(delay,by=0s)"),
            "line: key 'by': a delay of no time changes nothing");
  EXPECT_EQ(refusal("AllReduce=link(cut,for=0s)"),
            "line: key 'for': a link that fails for no time does not fail; leave it out for no "
            "limit");
  EXPECT_EQ(refusal("AllReduce=corrupt(scale,by=1)"),
            "line: key 'by': a factor of 1 changes nothing");
  EXPECT_EQ(refusal("AllReduce=corrupt(nan,elements=65)"),
            "line: key 'elements': at most 64 elements are changed");
  EXPECT_EQ(refusal("AllReduce=corrupt(stale)"),
            "line: key 'corrupt': only output can be stale; add at = \"after\"");
}

TEST(Sense, BuffersAreReadOffTheRolesOfTheSpec) {
  const auto traits = [](std::string_view name) { return traits_of(*abi::find_function(name)); };
  EXPECT_TRUE(traits("AllReduce").has_input && traits("AllReduce").has_output);
  EXPECT_TRUE(traits("Send").has_input && !traits("Send").has_output);
  EXPECT_TRUE(!traits("Recv").has_input && traits("Recv").has_output);
  EXPECT_TRUE(traits("Bcast").has_input && traits("Bcast").has_output);
  EXPECT_TRUE(!traits("CommInitRank").has_input && !traits("CommInitRank").has_output);
}

}  // namespace
}  // namespace sabot::scenario
