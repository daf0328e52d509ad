// Requests and answers: what is understood, and in which words everything else is refused.
#include "launch/control/request.hpp"

#include <gtest/gtest.h>

namespace sabot::launch::control {
namespace {

std::string refusal(const std::string& line) {
  const Result<Request> request = parse_request(line);
  return request.ok() ? "understood" : request.error().message();
}

TEST(Requests, EachVerbReadsBackAsItWasWritten) {
  const Request requests[] = {
      {.verb = Verb::kStatus},
      {.verb = Verb::kArm, .name = "nic-dies"},
      {.verb = Verb::kDisarm, .name = "a \"quoted\" name"},
      {.verb = Verb::kFire, .name = "nic-dies", .rank = 0},
      {.verb = Verb::kFire, .name = "nic-dies"},
      {.verb = Verb::kRelease},
      {.verb = Verb::kRelease, .name = "slow-rank"},
      {.verb = Verb::kAdd, .file = "more.toml", .text = "sabot = 1\n"},
  };
  for (const Request& request : requests) {
    const Result<Request> read = parse_request(to_line(request));
    ASSERT_TRUE(read.ok()) << read.error().message();
    EXPECT_EQ(*read, request) << to_line(request);
  }
  EXPECT_EQ(to_line(requests[3]), R"({"do":"fire","name":"nic-dies","rank":0})");
}

TEST(Requests, WhatIsNoJsonObjectIsRefused) {
  EXPECT_EQ(refusal(""),
            "a request is one line of JSON: not JSON: the text ends where a value is expected at "
            "offset 0");
  EXPECT_EQ(refusal("status"),
            "a request is one line of JSON: not JSON: an unknown word at offset 0");
  EXPECT_EQ(refusal("[1]"), "a request is a JSON object");
  EXPECT_EQ(refusal("null"), "a request is a JSON object");
}

TEST(Requests, AnUnknownVerbOrKeyNamesTheNearest) {
  EXPECT_EQ(refusal(R"({"do":"statsu"})"), "unknown request 'statsu'; did you mean 'status'?");
  EXPECT_EQ(refusal(R"({"do":"format the disk"})"), "unknown request 'format the disk'");
  EXPECT_EQ(refusal(R"({"do":"arm","nam":"x"})"), "'arm' takes no key 'nam'; did you mean 'name'?");
  EXPECT_EQ(refusal(R"({"do":"arm","name":"x","rank":1})"), "'arm' takes no key 'rank'");
  EXPECT_EQ(refusal(R"({"do":"arm","name":"x","name":"y"})"), "key 'name' stands there twice");
}

TEST(Requests, AMissingOrWrongValueIsNamed) {
  EXPECT_EQ(refusal("{}"), "a request says what to 'do', as a text");
  EXPECT_EQ(refusal(R"({"do":7})"), "a request says what to 'do', as a text");
  EXPECT_EQ(refusal(R"({"do":"fire"})"), "'fire' needs the 'name' of a fault");
  EXPECT_EQ(refusal(R"({"do":"arm","name":["x"]})"), "'name' is no text");
  EXPECT_EQ(refusal(R"({"do":"add","file":"a.toml"})"), "'add' needs the 'text' of a scenario");
  EXPECT_EQ(refusal(R"({"do":"arm","name":")" + std::string(257, 'x') + "\"}"),
            "'name' is longer than 256 bytes");
}

TEST(Requests, ARankIsAWholeNumberOfAnInt) {
  const std::string sentence = "'rank' is no whole number from 0 to 2147483392";
  for (const char* const rank : {"-1", "1.5", "1e3", "\"1\"", "true", "99999999999999999999"})
    EXPECT_EQ(refusal(std::string(R"({"do":"fire","name":"x","rank":)") + rank + "}"), sentence)
        << rank;
  EXPECT_EQ(refusal(R"({"do":"fire","name":"x","rank":2147483392})"), "understood");
}

TEST(Requests, AMessageShowsNoControlCharactersAndCutsLongWords) {
  EXPECT_EQ(refusal(R"({"do":"\u001b[2J\n"})"), "unknown request '?[2J?'");
  EXPECT_EQ(refusal("{\"do\":\"" + std::string(100, 'x') + "\"}"),
            "unknown request '" + std::string(64, 'x') + "…'");
}

TEST(Requests, ALineThatIsTooLongIsNotLookedAt) {
  EXPECT_EQ(refusal(std::string(kRequestBytesMax + 1, '{')),
            "a request is at most 2097152 bytes long");
}

TEST(Answers, ReadBackWithTheirStatus) {
  EXPECT_EQ(to_line(Answer{.is_ok = false, .text = "no\nway"}), R"({"ok":false,"text":"no\nway"})");
  const Result<run::JsonValue> answer =
      parse_answer(to_line(Answer{.is_ok = true, .status = R"({"attached":2})"}));
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE((*answer)["ok"].boolean());
  EXPECT_EQ((*answer)["status"]["attached"].natural(), 2U);
  EXPECT_FALSE(parse_answer("{}").ok());
  EXPECT_FALSE(parse_answer("").ok());
}

}  // namespace
}  // namespace sabot::launch::control
