// The one-line form of --fault and SABOT_FAULT.
#include <gtest/gtest.h>

#include "scenario/parse.hpp"
#include "scenario/print.hpp"

namespace sabot::scenario {
namespace {

std::string error(std::string_view line) {
  const Result<Scenario> scenario = parse_line(line, "--fault");
  return scenario.ok() ? "accepted" : scenario.error().message();
}

// The canonical text of what was understood.
std::string read(std::string_view line) {
  const Result<Scenario> scenario = parse_line(line, "--fault");
  return scenario.ok() ? to_line(*scenario) : scenario.error().message();
}

TEST(OneLine, TheShortestFaultIsACallAndAnAction) {
  EXPECT_EQ(read("AllReduce=error(SystemError)"), "line-1: AllReduce=error(SystemError)");
  EXPECT_EQ(read("AllReduce[]=error(ncclSystemError, at=before)"),
            "line-1: AllReduce=error(SystemError)");
}

TEST(OneLine, ALineMeansTheSameAsTheFile) {
  const Result<Scenario> line = parse_line(
      "seed=42; nic-dies: AllReduce[rank=1,nth=3,attempt=0,budget=1]=error(SystemError,at=after); "
      "slow: any collective[rank=[2,3], bytes>=1MiB, every=10, after=30s]=error(RemoteError)",
      "--fault");
  const Result<Scenario> file = parse_toml(R"(
sabot = 1
seed = 42
[[fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1, nth = 3, attempt = 0 }
do = { error = "SystemError", at = "after" }
budget = 1
[[fault]]
name = "slow"
when = { call = "any collective", rank = [2, 3], bytes = ">=1MiB", every = 10, after = "30s" }
do = { error = "RemoteError" }
)",
                                           "s.toml");
  ASSERT_TRUE(line.ok()) << line.error().message();
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_TRUE(*line == *file) << to_toml(*line) << to_toml(*file);
}

TEST(OneLine, ComparisonsAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(read("AllReduce[rank!=0]=error(SystemError)"),
            "line-1: AllReduce[rank>=1]=error(SystemError)");
  EXPECT_EQ(read("AllReduce[rank!=2, bytes >= 1MiB, comm>=4]=error(SystemError)"),
            "line-1: AllReduce[rank!=2,comm>=4,bytes>=1MiB]=error(SystemError)");
  EXPECT_EQ(read("AllReduce[bytes>=4KiB,bytes<1MiB]=error(SystemError)"),
            "line-1: AllReduce[bytes=4KiB..1048575B]=error(SystemError)");
  EXPECT_EQ(read("AllReduce[rank=\"0,2-3\"]=error(SystemError)"),
            "line-1: AllReduce[rank=\"0,2-3\"]=error(SystemError)");
  EXPECT_EQ(read("AllReduce[range=3..]=error(SystemError)"),
            "line-1: AllReduce[range>=3]=error(SystemError)");
}

TEST(OneLine, ListsQuotesAndSpacesAreUnderstood) {
  EXPECT_EQ(
      read(" a : AllReduce | AllGather [ rank = 1 , host = 'node 1' ] = error ( SystemError ) ; "),
      "a: AllReduce|AllGather[rank=1,host=\"node 1\"]=error(SystemError)");
  EXPECT_EQ(read("AllReduce[comm=[c0,\"name:a,b\"],datatype=half|bfloat16]=error(\"SystemError\")"),
            "line-1: AllReduce[comm=[c0,\"name:a,b\"],datatype=[float16,bfloat16]]="
            "error(SystemError)");
  EXPECT_EQ(read(R"(AllReduce[switch="say \"go\""]=error(SystemError))"),
            R"(line-1: AllReduce[switch="say \"go\""]=error(SystemError))");
  EXPECT_EQ(read("AllReduce[switch='42',captured=true,probability=0.5]=error(SystemError)"),
            "line-1: AllReduce[captured=true,switch=\"42\",probability=0.5]=error(SystemError)");
}

TEST(OneLine, AnUnknownKeyHasACaretBelowIt) {
  EXPECT_EQ(error("AllReduce[rnak=1]=error(SystemError)"),
            "--fault: key 'rnak': unknown key; did you mean 'rank'?\n"
            "  AllReduce[rnak=1]=error(SystemError)\n"
            "            ^");
}

TEST(OneLine, AWrongValueHasACaretBelowIt) {
  EXPECT_EQ(
      error("x: AllReduce[rank=-1]=error(SystemErorr)"),
      "--fault: key 'rank': '-1' is below zero; write for instance 3, [1, 2], \"0-3\", \">=4\" "
      "or \"!=0\"\n"
      "  x: AllReduce[rank=-1]=error(SystemErorr)\n"
      "                    ^\n"
      "--fault: key 'error': no result code is called 'SystemErorr'; did you mean "
      "'SystemError'?\n"
      "  x: AllReduce[rank=-1]=error(SystemErorr)\n"
      "                              ^");
  EXPECT_EQ(error("Allreduce=error(SystemError)"),
            "--fault: key 'call': no function or group of functions is called 'Allreduce'; did you "
            "mean 'AllReduce'?\n"
            "  Allreduce=error(SystemError)\n"
            "  ^");
  EXPECT_EQ(error("AllReduce[captured]=error(SystemError)"),
            "--fault: key 'captured': has no value; expected true or false\n"
            "  AllReduce[captured]=error(SystemError)\n"
            "                    ^");
  EXPECT_EQ(error("AllReduce=error"),
            "--fault: key 'error': has no value; expected an error code such as \"SystemError\"\n"
            "  AllReduce=error\n"
            "                 ^");
}

TEST(OneLine, SyntaxStopsWhereItIsWrong) {
  EXPECT_EQ(error("AllReduce[rank=1=error(SystemError)"),
            "--fault: expected ',' or ']'\n"
            "  AllReduce[rank=1=error(SystemError)\n"
            "                        ^");
  EXPECT_EQ(error("AllReduce"),
            "--fault: expected '=' and an action, as in =error(SystemError)\n"
            "  AllReduce\n"
            "           ^");
  EXPECT_EQ(error("AllReduce[rank=]=error(SystemError)"),
            "--fault: expected a value\n"
            "  AllReduce[rank=]=error(SystemError)\n"
            "                 ^");
  EXPECT_EQ(error("AllReduce=error(SystemError"),
            "--fault: expected ',' or ')'\n"
            "  AllReduce=error(SystemError\n"
            "                             ^");
  EXPECT_EQ(error("AllReduce=error(SystemError, after)"),
            "--fault: expected a name and a value, as in at=after\n"
            "  AllReduce=error(SystemError, after)\n"
            "                               ^");
  EXPECT_EQ(error("AllReduce=error(SystemError) x"),
            "--fault: expected ';' or the end\n"
            "  AllReduce=error(SystemError) x\n"
            "                               ^");
  EXPECT_EQ(error("AllReduce[host='a]=error(SystemError)"),
            "--fault: this quote is not closed\n"
            "  AllReduce[host='a]=error(SystemError)\n"
            "                 ^");
  EXPECT_EQ(error("AllReduce[rank=1,rank=2]=error(SystemError)"),
            "--fault: 'rank' is given twice; write a list, as in rank=[1,2]\n"
            "  AllReduce[rank=1,rank=2]=error(SystemError)\n"
            "                   ^");
  EXPECT_EQ(error(""),
            "--fault: expected a call, as in AllReduce[rank=1,nth=3]=error(SystemError)\n"
            "  \n"
            "  ^");
  EXPECT_EQ(error("seed=1"),
            "--fault: expected a call, as in AllReduce[rank=1,nth=3]=error(SystemError)\n"
            "  seed=1\n"
            "        ^");
}

TEST(OneLine, ContradictionsHaveACaretToo) {
  EXPECT_EQ(error("AllReduce[bytes>=1MiB,bytes<1KiB]=error(SystemError)"),
            "--fault: key 'bytes': no number satisfies '>=1MiB&<1KiB'\n"
            "  AllReduce[bytes>=1MiB,bytes<1KiB]=error(SystemError)\n"
            "                   ^");
  EXPECT_EQ(error("AllReduce[nth=3,every=2]=error(SystemError)"),
            "--fault: key 'every': contradicts 'nth': one call or every n-th, not both\n"
            "  AllReduce[nth=3,every=2]=error(SystemError)\n"
            "                        ^");
}

TEST(OneLine, LongLinesShowTheSurroundingsOfTheMistake) {
  const std::string line = "AllReduce[host=[" + std::string(100, 'h') +
                           "],rnak=1]=error(SystemError); " + "AllGather=error(SystemError)";
  EXPECT_EQ(
      error(line),
      "--fault: key 'rnak': unknown key; did you mean 'rank'?\n"
      "  …hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh],rnak=1]=error(SystemError); "
      "Al…\n"
      "                                                               ^");
}

TEST(OneLine, FaultsOfALineGoBehindThoseOfAFile) {
  const std::string_view file =
      "sabot = 1\nseed = 7\n[[fault]]\nwhen = { call = \"Broadcast\" }\n"
      "do = { error = \"SystemError\" }\n";
  Scenario both = parse_toml(file, "s.toml").value();
  ASSERT_TRUE(
      append_faults(both, parse_line("AllReduce=error(Timeout)", "--fault").value(), "--fault")
          .ok());
  EXPECT_EQ(to_line(both),
            "seed=7; fault-1: Broadcast=error(SystemError); line-1: AllReduce=error(Timeout)");
  ASSERT_TRUE(
      append_faults(both, parse_line("seed=9;x: any=error(Timeout)", "--fault").value(), "--fault")
          .ok());
  EXPECT_EQ(both.seed, 9u);
  EXPECT_EQ(
      append_faults(both, parse_line("x: any=error(Timeout)", "--fault").value(), "--fault")
          .error()
          .message(),
      "--fault: the scenario file has a fault named \"x\" already; give this one another name, "
      "as in 'other: AllReduce[nth=3]=error(SystemError)'");
  std::string many;
  for (int i = 0; i < 62; ++i) many += "any=error(Timeout);";
  EXPECT_EQ(append_faults(both, parse_line(many, "--fault").value(), "--fault").error().message(),
            "--fault: more than 64 faults in one run");
  EXPECT_EQ(both.faults.size(), 3u) << "a refusal changes nothing";
}

TEST(OneLine, TooLongOrBinaryLinesAreRefused) {
  EXPECT_EQ(
      error(std::string(20000, 'x')),
      "--fault: 20000 bytes are too many for one line (at most 16KiB); write a scenario file");
  EXPECT_EQ(error("AllReduce\xff"), "--fault: not UTF-8 text");
}

}  // namespace
}  // namespace sabot::scenario
