// Scenario files: what is read, and what every kind of mistake is told.
#include "scenario/parse.hpp"

#include <gtest/gtest.h>

#include "scenario/names.hpp"
#include "scenario/print.hpp"

namespace sabot::scenario {
namespace {

std::string error(std::string_view text) {
  const Result<Scenario> scenario = parse_toml(text, "s.toml");
  return scenario.ok() ? "accepted" : scenario.error().message();
}

// A file whose only fault is under test; the fault begins in line 2.
std::string error_of_fault(const std::string& fault) {
  return error("sabot = 1\n[[fault]]\n" + fault);
}
std::string error_of_when(const std::string& when) {
  return error_of_fault("when = { " + when + " }\ndo = { error = \"SystemError\" }\n");
}
std::string error_of_do(const std::string& action) {
  return error_of_fault("when = { call = \"AllReduce\" }\ndo = { " + action + " }\n");
}

TEST(ScenarioFile, TheExampleOfTheManualIsReadInFull) {
  const Result<Scenario> read = parse_toml(R"(
sabot = 1
name  = "allreduce returns a system error on rank 1"
seed  = 42
ranks = 4

[[fault]]
name    = "nic-dies"
when    = { call = "AllReduce", rank = 1, nth = 3, attempt = 0 }
do      = { error = "ncclSystemError", at = "after" }
budget  = 1

[[fault]]
when    = { call = "any collective", rank = [2, 3], bytes = ">=1MiB", every = 10, after = "30s" }
do      = { error = "RemoteError" }

[expect]
outcome         = "recovers"
detected_within = "10s"
finished_within = "2m"
fired           = { "nic-dies" = 1 }
)",
                                           "s.toml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->name, "allreduce returns a system error on rank 1");
  EXPECT_EQ(read->seed, 42u);
  EXPECT_EQ(read->ranks, 4u);
  ASSERT_EQ(read->faults.size(), 2u);
  const Fault& nic = read->faults[0];
  EXPECT_EQ(nic.name, "nic-dies");
  EXPECT_EQ(nic.budget, 1u);
  EXPECT_EQ(nic.when.call, std::vector<CallTerm>{*find_call_term("AllReduce")});
  EXPECT_EQ(nic.when.rank, NumberSet::of(1));
  EXPECT_EQ(nic.when.attempt, NumberSet::of(0));
  EXPECT_EQ(nic.when.nth, 3u);
  EXPECT_EQ(nic.action.kind, ActionKind::kError);
  EXPECT_EQ(nic.action.result(), 2);
  EXPECT_EQ(nic.action.moment(), Moment::kAfter);
  const Fault& slow = read->faults[1];
  EXPECT_EQ(slow.name, "fault-2");
  EXPECT_EQ(slow.budget, 0u);
  EXPECT_EQ(slow.when.rank, NumberSet::of(Interval{2, 3}));
  EXPECT_EQ(slow.when.bytes.low(), 1u << 20);
  EXPECT_EQ(slow.when.every, 10u);
  EXPECT_EQ(slow.when.after_ns, 30'000'000'000u);
  EXPECT_EQ(slow.action.moment(), Moment::kBefore);
  ASSERT_TRUE(read->expect.has_value());
  EXPECT_EQ(read->expect->outcomes, bit_of(Outcome::kRecovers));
  EXPECT_EQ(read->expect->detected_within_ns, 10'000'000'000u);
  EXPECT_EQ(read->expect->finished_within_ns, 120'000'000'000u);
  EXPECT_EQ(read->expect->fired, (std::vector<ExpectedFirings>{{"nic-dies", 1}}));
  EXPECT_TRUE(read->warnings.empty());
}

TEST(ScenarioFile, EveryConditionIsRead) {
  const Result<Scenario> read = parse_toml(R"(
sabot = 1
[[fault]]
do = { error = "InternalError" }
[fault.when]
call = ["AllReduce", "ncclReduceScatter|Reduce"]
rank = "!=0"
world_rank = [0, "2-3", ">=8"]
host = ["node-1*", "spare"]
comm = ["c0", "c0/*", "name:dp*", "tensor parallel", ">=4"]
bytes = "4KiB..1MiB"
count = "<=1000000"
datatype = ["half", "bfloat16"]
redop = ["Sum", "user"]
attempt = "0-1"
captured = false
after = "1.5s"
after_first_call = "200ms"
switch = "chaos"
range = "3.."
every = 2
probability = 0.25
)",
                                           "s.toml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  const Trigger& when = read->faults[0].when;
  EXPECT_EQ(when.call.size(), 3u);
  EXPECT_EQ(when.rank.to_string(NumberStyle::kPlain), ">=1");
  EXPECT_EQ(when.world_rank.to_string(NumberStyle::kPlain), "0,2-3,>=8");
  EXPECT_EQ(when.host, (std::vector<std::string>{"node-1*", "spare"}));
  ASSERT_EQ(when.comm.size(), 5u);
  EXPECT_EQ(when.comm[0].kind, CommTerm::Kind::kLabel);
  EXPECT_EQ(when.comm[1].kind, CommTerm::Kind::kLabel);
  EXPECT_EQ(when.comm[2].kind, CommTerm::Kind::kName);
  EXPECT_EQ(when.comm[2].pattern, "dp*");
  EXPECT_EQ(when.comm[3].kind, CommTerm::Kind::kName);
  EXPECT_EQ(when.comm[4].size.to_string(NumberStyle::kPlain), ">=4");
  EXPECT_EQ(when.bytes.to_string(NumberStyle::kBytes), "4KiB..1MiB");
  EXPECT_EQ(when.count.high(), 1'000'000u);
  EXPECT_EQ(when.datatypes, (1u << 6) | (1u << 9));
  EXPECT_EQ(when.redops, (1u << 0) | (1u << kRedopCreatedBit));
  EXPECT_EQ(when.captured, false);
  EXPECT_EQ(when.after_ns, 1'500'000'000u);
  EXPECT_EQ(when.after_first_call_ns, 200'000'000u);
  EXPECT_EQ(when.switch_name, "chaos");
  EXPECT_EQ(when.range.low(), 3u);
  EXPECT_EQ(when.every, 2u);
  EXPECT_EQ(when.probability, 0.25);
  EXPECT_EQ(switches_of(*read), std::vector<std::string>{"chaos"});
}

TEST(ScenarioFile, AnUnknownKeyIsToldWithTheNearestOne) {
  EXPECT_EQ(error_of_when("call = \"AllReduce\", rnak = 1"),
            "s.toml:3: key 'when.rnak': unknown key; did you mean 'rank'?");
  EXPECT_EQ(
      error_of_fault("whne = { call = \"AllReduce\" }\n"),
      "s.toml:2: key 'when': missing in this fault; for instance: "
      "when = { call = \"AllReduce\", rank = 1, nth = 3 }\n"
      "s.toml:2: key 'do': missing in this fault; for instance: do = { error = \"SystemError\" }\n"
      "s.toml:3: key 'whne': unknown key; did you mean 'when'?");
  EXPECT_EQ(error("sabot = 1\nsede = 3\n[[fault]]\nwhen = { call = \"any\" }\ndo = { error = "
                  "\"SystemError\" }\n"),
            "s.toml:2: key 'sede': unknown key; did you mean 'seed'?");
  EXPECT_EQ(
      error_of_fault("zzzzzzzzzzzzz = 1\nwhen = { call = \"any\" }\ndo = { error = "
                     "\"SystemError\" }\n"),
      "s.toml:3: key 'zzzzzzzzzzzzz': unknown key; known here: name, when, do, budget, armed");
}

TEST(ScenarioFile, AConditionOrActionBesideWhenAndDoIsSentToItsPlace) {
  EXPECT_EQ(error_of_fault("rank = 1\nwhen = { call = \"AllReduce\" }\nerror = \"SystemError\"\n"
                           "do = { error = \"SystemError\" }\n"),
            "s.toml:3: key 'rank': is a condition; write it into 'when'\n"
            "s.toml:5: key 'error': is an action; write it into 'do'");
}

TEST(ScenarioFile, AWrongTypeIsToldWithWhatWasExpectedAndWhatWasFound) {
  EXPECT_EQ(
      error_of_when("call = 3"),
      "s.toml:3: key 'when.call': expected a function, a group of functions, or a list of them; "
      "found the number 3");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", rank = true"),
            "s.toml:3: key 'when.rank': expected a number, a list, or a text such as \"0-3\", "
            "\">=4\", \"!=0\" or \"0,4-7\"; found true");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", nth = \"3\""),
            "s.toml:3: key 'when.nth': expected a whole number from 1; found the text '3'");
  EXPECT_EQ(
      error_of_when("call = \"AllReduce\", after = 30"),
      "s.toml:3: key 'when.after': expected a duration such as \"200ms\", \"1.5s\" or \"2m\"; "
      "found the number 30");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", captured = 1979-05-27"),
            "s.toml:3: key 'when.captured': expected true or false; found a date or a time");
  EXPECT_EQ(error("sabot = 1\n[fault]\nwhen = { call = \"any\" }\n"),
            "s.toml:2: key 'fault': expected tables, each under its own [[fault]]; found a table");
  EXPECT_EQ(error("sabot = \"1\"\n[[fault]]\nwhen = { call = \"any\" }\ndo = { error = "
                  "\"SystemError\" }\n"),
            "s.toml:1: key 'sabot': expected the number 1; found the text '1'");
}

TEST(ScenarioFile, AWrongNameIsToldWithTheNearestOne) {
  EXPECT_EQ(
      error_of_when("call = \"Allreduce\""),
      "s.toml:3: key 'when.call': no function or group of functions is called 'Allreduce'; did "
      "you mean 'AllReduce'?");
  EXPECT_EQ(
      error_of_when("call = \"any colective\""),
      "s.toml:3: key 'when.call': no function or group of functions is called 'any colective'; "
      "did you mean 'any collective'?");
  EXPECT_EQ(
      error_of_when("call = \"AllReduce\", datatype = \"float31\""),
      "s.toml:3: key 'when.datatype': no data type is called 'float31'; did you mean 'float32'?");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", redop = \"bitwise-or\""),
            "s.toml:3: key 'when.redop': no reduction is called 'bitwise-or'; known here: sum, "
            "prod, max, "
            "min, avg, user");
  EXPECT_EQ(error_of_do("error = \"SystemErorr\""),
            "s.toml:4: key 'do.error': no result code is called 'SystemErorr'; did you mean "
            "'SystemError'?");
}

TEST(ScenarioFile, NumbersOutsideTheirRangeAreRefused) {
  EXPECT_EQ(error_of_when("call = \"AllReduce\", rank = -1"),
            "s.toml:3: key 'when.rank': '-1' is below zero; write for instance 3, [1, 2], \"0-3\", "
            "\">=4\" or \"!=0\"");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", nth = 0"),
            "s.toml:3: key 'when.nth': expected a whole number from 1; found the number 0");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", range = \"7-3\""),
            "s.toml:3: key 'when.range': the range '7-3' is reversed; write '3-7'");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", range = 0"),
            "s.toml:3: key 'when.range': counting begins at 1; found 0");
  EXPECT_EQ(
      error_of_when("call = \"AllReduce\", probability = 10"),
      "s.toml:3: key 'when.probability': expected a number from 0 to 1; a percentage such as 10 % "
      "is 0.1");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", after = \"100h\", after_first_call = \"9000h\""),
            "s.toml:3: key 'when.after_first_call': '9000h' is longer than 30 days");
  EXPECT_EQ(error_of_fault("when = { call = \"AllReduce\" }\ndo = { error = \"SystemError\" }\n"
                           "budget = 0\n"),
            "s.toml:5: key 'budget': a fault with budget 0 never fires; remove the fault, or use a "
            "switch");
}

TEST(ScenarioFile, ConditionsThatCanNeverHoldTogetherAreRefused) {
  EXPECT_EQ(error_of_when("call = \"AllReduce\", bytes = \">=1MiB & <1KiB\""),
            "s.toml:3: key 'when.bytes': no number satisfies '>=1MiB & <1KiB'");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", nth = 3, every = 10"),
            "s.toml:3: key 'when.every': contradicts 'nth': one call or every n-th, not both");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", nth = 3, range = \"1-5\""),
            "s.toml:3: key 'when.range': contradicts 'nth': one call or a range, not both");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", range = \"1-5\", every = 10"),
            "s.toml:3: key 'when.every': the range '1-5' has no multiple of 10");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", root = 0"),
            "s.toml:3: key 'when.root': 'AllReduce' has no root");
  EXPECT_EQ(
      error_of_when("call = \"GetVersion\", rank = 1"),
      "s.toml:3: key 'when.rank': 'GetVersion' has no rank; world_rank is known for every call");
  EXPECT_EQ(error_of_when("call = \"CommDestroy\", bytes = 4"),
            "s.toml:3: key 'when.bytes': 'CommDestroy' has no count, so its size is unknown");
  EXPECT_EQ(
      error_of_when("call = \"Broadcast|Send\", root = 0, peer = 1"),
      "s.toml:3: key 'when.call': no function of 'Broadcast|Send' has all that the conditions ask "
      "for");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", count = 16, bytes = \">=1KiB\""),
            "s.toml:3: key 'when.bytes': contradicts 'count' = '16': no element is that large");
  EXPECT_EQ(
      error_of_when("call = \"AllReduce\", count = \">=1000\", datatype = \"int64\", bytes = 4096"),
      "s.toml:3: key 'when.bytes': contradicts 'count' = '>=1000' and 'datatype': no element is "
      "that small");
  EXPECT_EQ(
      error_of_when("call = \"AllReduce\", bytes = 6, datatype = \"float32\""),
      "s.toml:3: key 'when.bytes': 6 bytes are not a whole number of elements of this data type");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", comm = \"<=2\", rank = 5"),
            "s.toml:3: key 'when.rank': '5' cannot exist in a comm of at most 2 ranks");
  EXPECT_EQ(
      error("sabot = 1\nranks = 4\n[[fault]]\nwhen = { call = \"Broadcast\", rank = 4, root = 9, "
            "comm = \">4\" }\ndo = { error = \"SystemError\" }\n"),
      "s.toml:4: key 'when.rank': '4' cannot exist: the scenario has ranks = 4, that is 0 to 3\n"
      "s.toml:4: key 'when.root': '9' cannot exist: the scenario has ranks = 4, that is 0 to 3\n"
      "s.toml:4: key 'when.comm': no comm has '>=5' ranks: the scenario has ranks = 4");
}

TEST(ScenarioFile, WhatIsPossibleTogetherIsAccepted) {
  EXPECT_EQ(error_of_when("call = \"any\", root = 0"), "accepted");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", range = \"5-10\", every = 10"), "accepted");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", count = 16, bytes = 128"), "accepted");
  EXPECT_EQ(error_of_when("call = \"CommInitRankConfig\", rank = 1"), "accepted");
  EXPECT_EQ(error_of_when("call = \"GetUniqueId\", world_rank = 0"), "accepted");
  EXPECT_EQ(error_of_when("call = \"AllReduce\", comm = [\"<=2\", \"c1\"], rank = 5"), "accepted");
}

TEST(ScenarioFile, OnlyErrorsCanBeInjectedAndOnlyWhereACallReturnsOne) {
  EXPECT_EQ(
      error_of_do("error = \"Success\""),
      "s.toml:4: key 'do.error': 'Success' is not an error; a call that succeeds needs no fault");
  EXPECT_EQ(
      error_of_when("call = \"GetErrorString\""),
      "s.toml:3: key 'when.call': 'GetErrorString' returns no result code, so it cannot be made to "
      "return an error");
  const Result<Scenario> polled = parse_toml(
      "sabot = 1\n[[fault]]\nwhen = { call = \"AllReduce\" }\ndo = { error = \"InProgress\" }\n",
      "s.toml");
  ASSERT_TRUE(polled.ok());
  EXPECT_EQ(polled->warnings,
            std::vector<std::string>{
                "s.toml:4: key 'do.error': 'InProgress' is not an error for NCCL: callers of a "
                "non-blocking communicator poll, others may take it for a failure"});
}

TEST(ScenarioFile, AFaultHasOneActionWithItsOwnParameters) {
  EXPECT_EQ(
      error_of_do("error = \"SystemError\", hang = true"),
      "s.toml:4: key 'do.hang': a fault has one action, and 'error' is already given; write a "
      "second fault");
  EXPECT_EQ(error_of_do("error = \"SystemError\", jitter = \"1ms\""),
            "s.toml:4: key 'do.jitter': belongs to the action 'delay', not to 'error'");
  EXPECT_EQ(
      error_of_do("error = \"SystemError\", at = \"later\""),
      "s.toml:4: key 'do.at': expected \"before\" or \"after\"; found the text 'later'; did you "
      "mean 'after'?");
  EXPECT_EQ(error_of_do("eror = \"SystemError\""),
            "s.toml:4: key 'do.eror': no action is called 'eror'; did you mean 'error'?");
  EXPECT_EQ(
      error_of_do(""),
      "s.toml:4: key 'do': no action; known here: error, async_error, delay, hang, skip, mismatch, "
      "corrupt, crash, link, exhaust");
}

TEST(ScenarioFile, EveryActionIsReadWithAllItsParameters) {
  const auto accepted = [](const std::string& action) {
    EXPECT_EQ(error_of_do(action), "accepted") << action;
  };
  accepted("async_error = \"RemoteError\", after = \"5s\"");
  accepted("delay = \"200ms\", on = \"host\", jitter = \"50ms\", distribution = \"normal\"");
  accepted("hang = true");
  accepted("hang = \"30s\", on = \"host\"");
  accepted("skip = true");
  accepted("mismatch = \"count\", to = 17");
  accepted("corrupt = \"scale\", by = 1.5, elements = 3");
  accepted("crash = \"SIGKILL\"");
  accepted("crash = 3, at = \"after\"");
  accepted("link = \"throttle\", rate = \"100MiB\", peer = 1, for = \"10s\"");
  accepted("exhaust = \"allocation\"");
}

TEST(ScenarioFile, ParametersThatDoNotFitTheActionAreRefused) {
  EXPECT_EQ(error_of_do("link = \"throttle\", by = \"1ms\""),
            "s.toml:4: key 'do.by': makes no sense with 'throttle'\n"
            "s.toml:4: key 'do.rate': missing; 'throttle' needs it");
  EXPECT_EQ(
      error_of_do("mismatch = \"datatype\", to = 3"),
      "s.toml:4: key 'do.to': expected the name of a datatype, because the datatype differs; found "
      "the number 3");
  EXPECT_EQ(error_of_do("skip = false"), "s.toml:4: key 'do.skip': expected true; found false");
}

TEST(ScenarioFile, NamesOfFaultsAreUniqueAndFitIntoFileNames) {
  const std::string body = "when = { call = \"AllReduce\" }\ndo = { error = \"SystemError\" }\n";
  EXPECT_EQ(error_of_fault("name = \"a\"\n" + body + "[[fault]]\nname = \"a\"\n" + body),
            "s.toml:7: key 'name': another fault is called 'a' already");
  EXPECT_EQ(
      error_of_fault("name = \"../etc\"\n" + body),
      "s.toml:3: key 'name': expected a text of letters, digits, '-', '_' and '.', at most 64, not "
      "beginning with '.'; found the text '../etc'");
  const Result<Scenario> taken = parse_toml(
      "sabot = 1\n[[fault]]\n" + body + "[[fault]]\nname = \"fault-1\"\n" + body, "s.toml");
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->faults[0].name, "fault-1b");
}

TEST(ScenarioFile, ExpectationsNameFaultsThatExist) {
  const std::string head =
      "sabot = 1\n[[fault]]\nname = \"nic-dies\"\nwhen = { call = \"AllReduce\" }\ndo = { error = "
      "\"SystemError\" }\nbudget = 1\n[expect]\n";
  EXPECT_EQ(error(head + "fired = { nic-died = 1 }\n"),
            "s.toml:8: key 'expect.fired.nic-died': no fault is called 'nic-died'; did you mean "
            "'nic-dies'?");
  EXPECT_EQ(
      error(head + "fired = { nic-dies = 2 }\n"),
      "s.toml:8: key 'expect.fired.nic-dies': more than the budget of this fault, which is 1");
  EXPECT_EQ(
      error(head + "outcome = \"survives\"\n"),
      "s.toml:8: key 'expect.outcome': no outcome is called 'survives'; known here: completes, "
      "recovers, fails-cleanly, hangs, dies-dirty, wrong-result");
  EXPECT_EQ(error(head + "detected_within = \"2m\"\nfinished_within = \"10s\"\n"),
            "s.toml:8: key 'expect.detected_within': is longer than finished_within: a job that "
            "has ended "
            "detects nothing");
  EXPECT_EQ(error(head + "outcom = \"recovers\"\n"),
            "s.toml:8: key 'expect.outcom': unknown key; did you mean 'outcome'?");
}

TEST(ScenarioFile, FilesThatAreNoScenariosAreToldSo) {
  EXPECT_EQ(error(""),
            "s.toml: empty; a scenario begins with 'sabot = 1' and has at least one [[fault]]");
  EXPECT_EQ(
      error("# nothing\n"),
      "s.toml: key 'sabot': missing; a scenario begins with 'sabot = 1'\n"
      "s.toml: key 'fault': missing; a scenario has at least one [[fault]] with 'when' and 'do'");
  EXPECT_EQ(error(std::string_view("sabot\0= 1\n", 10)),
            "s.toml:1: a zero byte; is this a binary file? A scenario is a text file");
  EXPECT_EQ(error("\x7f"
                  "ELF\x02\x01\x01\n\xff\xfe"),
            "s.toml:2: not UTF-8 text; is this a binary file? A scenario is a text file");
  EXPECT_EQ(
      error(std::string((1 << 20) + 1, '#')),
      "s.toml: 1048577 bytes are too many for a scenario (at most 1MiB); is this the right file?");
  EXPECT_EQ(
      check_size(100'000'000, "huge.toml").error().message(),
      "huge.toml: 100000000 bytes are too many for a scenario (at most 1MiB); is this the right "
      "file?");
  EXPECT_EQ(error("sabot = 1\nfault = []\n"),
            "s.toml:2: key 'fault': an empty list; a scenario has at least one [[fault]]");
  EXPECT_EQ(
      error("sabot = 2\n"),
      "s.toml: key 'fault': missing; a scenario has at least one [[fault]] with 'when' and 'do'\n"
      "s.toml:1: key 'sabot': expected the number 1; found the number 2");
}

TEST(ScenarioFile, BrokenTomlIsToldWithItsLine) {
  const std::string broken = error("sabot = 1\n[[fault]\n");
  EXPECT_EQ(broken.substr(0, 26), "s.toml:2: not valid TOML: ") << broken;
  const std::string twice = error("sabot = 1\nsabot = 1\n");
  EXPECT_EQ(twice.substr(0, 26), "s.toml:2: not valid TOML: ") << twice;
  std::string deep = "a";
  for (int i = 0; i < 1000; ++i) deep += ".a";
  EXPECT_EQ(error("sabot = 1\n" + deep + " = 1\n"), "s.toml:2: more than 128 dots in one line");
  EXPECT_FALSE(parse_toml("sabot = " + std::string(1000, '['), "s.toml").ok());
}

TEST(ScenarioFile, LettersOutsideAsciiAreKeptInTextsAndRefusedElsewhere) {
  const std::string fault =
      "[[fault]]\nwhen = { call = \"any\" }\ndo = { error = \"SystemError\" }\n";
  const Result<Scenario> read = parse_toml(
      "\xEF\xBB\xBFsabot = 1 # é\nname = \"\"\"\n~é\\u00e9 ~7E\"\"\"\n" + fault, "s.toml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->name, "~éé ~7E");
  EXPECT_EQ(error("sabot = 1\nname = '\\u007e'\n" + fault),
            "s.toml:2: an escaped '~'; write it as it is");
  const std::string outside = error("sabot = 1\né = 2\n" + fault);
  EXPECT_EQ(outside.substr(0, 26), "s.toml:2: not valid TOML: ") << outside;
  EXPECT_NE(outside.find("a character outside ASCII"), std::string::npos) << outside;
  EXPECT_EQ(
      error("sabot = 1\n\"clé\" = 2\n" + fault),
      "s.toml:2: key 'clé': unknown key; known here: sabot, name, seed, ranks, fault, expect");
}

TEST(ScenarioFile, ControlCharactersOfTheInputDoNotReachTheTerminal) {
  EXPECT_EQ(error_of_when("call = \"AllReduce\", rank = \"\\u001b[31m\""),
            "s.toml:3: key 'when.rank': '?[31m' is not a number; write for instance 3, [1, 2], "
            "\"0-3\", \">=4\" or \"!=0\"");
}

TEST(ScenarioFile, AllMistakesAreShownAtOnceInOrderOfTheirLinesUpToTwenty) {
  std::string text = "sabot = 1\n";
  for (int i = 0; i < 30; ++i) text += "wrong" + std::to_string(i) + " = 1\n";
  const std::string all = error(text);
  EXPECT_NE(all.find("s.toml:2: key 'wrong0': unknown key"), std::string::npos) << all;
  EXPECT_NE(all.find("\n… and 11 more"), std::string::npos) << all;
}

}  // namespace
}  // namespace sabot::scenario
