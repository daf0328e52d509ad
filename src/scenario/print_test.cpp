// What is printed reads back to the same meaning, in both forms; and the reference page is
// complete.
#include "scenario/print.hpp"

#include <gtest/gtest.h>

#include "abi/names.hpp"
#include "base/random.hpp"
#include "scenario/parse.hpp"
#include "scenario/read/grammar.hpp"
#include "scenario/reference.hpp"

namespace sabot::scenario {
namespace {

TEST(Print, AScenarioIsPrintedInCanonicalForm) {
  const Result<Scenario> read = parse_toml(R"(
sabot = 1
name = "a \"quoted\" name"
seed = 0
ranks = 8
[[fault]]
when = { rank = [3, 1, 2], call = "ncclAllReduce|Send", bytes = "<1MiB & >= 4096", comm = "=2-8" }
do = { at = "before", error = "ncclTimeout" }
[[fault]]
name = "b"
when = { call = "any", probability = 1, datatype = "half", comm = ["c0/*", "dp"] }
do = { error = "SystemError", at = "after" }
budget = 3
[expect]
outcome = "fails-cleanly"
fired = { b = 3, fault-1 = 0 }
finished_within = "1500ms"
)",
                                           "s.toml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(to_toml(*read), R"(sabot = 1
name = "a \"quoted\" name"
ranks = 8

[[fault]]
name = "fault-1"
when = { call = ["AllReduce", "Send"], rank = "1-3", comm = "=2-8", bytes = "4KiB..1048575B" }
do = { error = "Timeout" }

[[fault]]
name = "b"
when = { call = "any", comm = ["c0/*", "name:dp"], datatype = "float16", probability = 1.0 }
do = { error = "SystemError", at = "after" }
budget = 3

[expect]
outcome = "fails-cleanly"
finished_within = "1500ms"
fired = { "b" = 3, "fault-1" = 0 }
)");
  EXPECT_EQ(to_line(*read),
            "fault-1: AllReduce|Send[rank=1-3,comm=\"=2-8\",bytes=4KiB..1048575B]=error(Timeout); "
            "b: any[comm=[c0/*,name:dp],datatype=float16,probability=1.0,budget=3]="
            "error(SystemError,at=after)");
}

// Random lines out of pieces that the grammar allows in any combination that is not a
// contradiction.
std::string random_line(Random& random) {
  constexpr std::string_view kCalls[] = {"AllReduce",          "Broadcast|Reduce", "any",
                                         "any collective",     "Send|Recv",        "init",
                                         "CommInitRankConfig", "any p2p | group"};
  constexpr std::string_view kConditions[] = {"rank=1",
                                              "rank!=2",
                                              "rank=[0,2-3,'>=7']",
                                              "world_rank<=3",
                                              "host='a b*'",
                                              "host=[x,'9']",
                                              "comm=c0",
                                              "comm=['c1/s0','name:x,y',3-node]",
                                              "comm>=4",
                                              "comm='=2-3,>=9'",
                                              "bytes>=1MiB",
                                              "bytes=[1KiB,'4KiB..1MB']",
                                              "bytes!=0",
                                              "count=7",
                                              "count='..100'",
                                              "datatype=half|float8e4m3",
                                              "datatype=[double]",
                                              "redop=user|max",
                                              "redop=sum",
                                              "root=0",
                                              "root!=0",
                                              "peer='1,3'",
                                              "attempt=0",
                                              "captured=true",
                                              "after=1500us",
                                              "after_first_call=1h",
                                              "switch='true'",
                                              "switch=go",
                                              "nth=3",
                                              "range=3..",
                                              "range='1,3-4'",
                                              "every=7",
                                              "probability=0.1",
                                              "probability=1e-3",
                                              "budget=2",
                                              "armed=false"};
  constexpr std::string_view kActions[] = {"error(SystemError)",
                                           "error(ncclRemoteError, at=after)",
                                           "error(Timeout, at=before)",
                                           "async_error(RemoteError, after=5s)",
                                           "delay(200ms, on=host, jitter=1us, distribution=normal)",
                                           "hang",
                                           "hang(30s, on=host)",
                                           "skip",
                                           "mismatch(count, to=3)",
                                           "mismatch(call, to=AllGather)",
                                           "corrupt(scale, by=-1.5, elements=64)",
                                           "corrupt(stale, at=after)",
                                           "crash(SIGKILL)",
                                           "crash(3, at=after)",
                                           "link(throttle, rate=1MiB, peer='0,2-3', for=10s)",
                                           "link(partition)",
                                           "exhaust(allocation)"};
  const auto pick = [&random](const auto& pieces) {
    return pieces[random.below(std::size(pieces))];
  };
  std::string line = random.below(2) == 0 ? "seed=" + std::to_string(random.below(100)) + ";" : "";
  for (std::uint64_t faults = 1 + random.below(3); faults > 0; --faults) {
    line += std::string(pick(kCalls)) + "[";
    for (std::uint64_t i = random.below(4); i > 0; --i)
      line += std::string(pick(kConditions)) + ",";
    if (line.back() == ',') line.pop_back();
    line += "]=" + std::string(pick(kActions)) + ";";
  }
  return line;
}

TEST(Print, WhateverIsAcceptedReadsBackFromBothForms) {
  Random random(20240611);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string line = random_line(random);
    const Result<Scenario> scenario = parse_line(line, "test");
    if (!scenario.ok()) continue;
    ++accepted;
    const Result<Scenario> from_line = parse_line(to_line(*scenario), "printed");
    ASSERT_TRUE(from_line.ok()) << line << "\n" << from_line.error().message();
    EXPECT_TRUE(*from_line == *scenario) << line << "\n" << to_line(*scenario);
    const Result<Scenario> from_toml = parse_toml(to_toml(*scenario), "printed");
    ASSERT_TRUE(from_toml.ok()) << line << "\n" << from_toml.error().message();
    EXPECT_TRUE(*from_toml == *scenario) << line << "\n" << to_toml(*scenario);
    EXPECT_EQ(to_toml(*from_toml), to_toml(*scenario));
  }
  EXPECT_GT(accepted, 2000) << "the pieces contradict each other too often to test anything";
}

TEST(Print, DurationsAreExact) {
  EXPECT_EQ(duration_text(1'500'000'000), "1500ms");
  EXPECT_EQ(duration_text(90'000'000'000), "90s");
  EXPECT_EQ(duration_text(1'234'567), "1234567ns");
  EXPECT_EQ(duration_text(0), "0s");
}

TEST(Grammar, EveryExampleOfTheReferenceIsAcceptedByTheParser) {
  for (const read::KeyRow& row : read::trigger_rows()) {
    // A function that has what the condition asks for.
    const std::string call = row.key == "call"   ? ""
                             : row.key == "peer" ? "call = \"Send\", "
                             : row.key == "root" ? "call = \"Reduce\", "
                                                 : "call = \"AllReduce\", ";
    const std::string text = "sabot = 1\n[[fault]]\nwhen = { " + call + std::string(row.example) +
                             " }\ndo = { error = \"SystemError\" }\n";
    const Result<Scenario> scenario = parse_toml(text, "example.toml");
    EXPECT_TRUE(scenario.ok()) << scenario.error().message();
  }
  for (const read::ActionRow& action : read::action_rows()) {
    const auto as_toml = [](const read::ParameterRow& row) {
      return std::string(row.key) + " = " + std::string(row.example);
    };
    std::string text =
        "sabot = 1\n[[fault]]\nwhen = { call = \"CommRegister|AllReduce\" }\ndo = { " +
        as_toml(action.parameters[0]);
    if (action.kind == ActionKind::kMismatch) text += ", " + as_toml(action.parameters[1]);
    text += " }\n";
    const Result<Scenario> scenario = parse_toml(text, "example.toml");
    EXPECT_TRUE(scenario.ok()) << scenario.error().message();
  }
}

TEST(Grammar, RowsStandInTheOrderOfTheirEnumerators) {
  for (std::size_t i = 0; i < kConditionCount; ++i)
    EXPECT_EQ(&read::row_of(static_cast<Condition>(i)), &read::trigger_rows()[i]);
  for (const read::ActionRow& row : read::action_rows()) {
    EXPECT_EQ(&read::row_of(row.kind), &row);
    EXPECT_EQ(row.parameters.front().key, row.word);
  }
  EXPECT_EQ(read::key_of(Condition::kCall), "call");
  EXPECT_EQ(read::key_of(Condition::kSwitch), "switch");
  EXPECT_EQ(read::key_of(Condition::kProbability), "probability");
}

TEST(Reference, NamesEveryKeyActionGroupAndResultCode) {
  const std::string page = reference_markdown();
  const auto expect_named = [&page](std::string_view word) {
    EXPECT_NE(page.find(word), std::string::npos) << word;
  };
  for (const read::KeyRow& row : read::trigger_rows())
    expect_named("| `" + std::string(row.key) + "` |");
  for (const read::ActionRow& row : read::action_rows())
    expect_named("### `" + std::string(row.word) + "`");
  for (const std::string_view name : abi::result_names()) expect_named(name);
}

}  // namespace
}  // namespace sabot::scenario
