// Names of processes and files, and the JSON that records are made of.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/read/json_value.hpp"

namespace sabot::run {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  append_json_escaped(out, text);
  return out;
}

TEST(Identity, AProcessIsNamedByHostAndPid) {
  EXPECT_EQ(process_tag(), host_name() + "." + std::to_string(::getpid()));
  EXPECT_EQ(host_name().find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_.-"),
            std::string::npos);
  EXPECT_NE(command_line().find("run_test"), std::string::npos);
}

TEST(Identity, AnyTextBecomesAFileNameOfItsOwn) {
  EXPECT_EQ(file_name_of("nic-dies_2"), "nic-dies_2");
  EXPECT_EQ(file_name_of("../etc"), "%2E%2E%2Fetc");
  EXPECT_EQ(file_name_of("%2E"), "%252E");
  EXPECT_EQ(file_name_of(""), "");
  EXPECT_EQ(file_name_of(std::string_view("a\0b", 3)), "a%00b");
  const std::string long_name = file_name_of(std::string(1000, 'x'));
  EXPECT_LT(long_name.size(), 200u);
  EXPECT_NE(long_name, file_name_of(std::string(1001, 'x')));
}

TEST(JsonWriter, EscapesWhatJsonDemandsAndReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(escaped("plain"), "plain");
  EXPECT_EQ(escaped("a\"b\\c"), "a\\\"b\\\\c");
  EXPECT_EQ(escaped("line\nnext\ttab\r\x01"), "line\\nnext\\ttab\\u000d\\u0001");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(escaped("größe € 𝄞"), "größe € 𝄞");
  EXPECT_EQ(escaped("\xff"), "\\ufffd");
  EXPECT_EQ(escaped("\xc0\xaf"), "\\ufffd\\ufffd");                        // overlong '/'
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd");             // a surrogate
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\ufffd\\ufffd\\ufffd\\ufffd");  // above U+10FFFF
  EXPECT_EQ(escaped("\xe2\x82"), "\\ufffd\\ufffd");                        // cut short
}

TEST(JsonWriter, PutsCommasAndBracketsWhereTheyBelong) {
  JsonWriter json;
  json.begin_object().field("a", 1).field("b", "two").field("c", true);
  json.key("d").begin_array().value(-3).value(18446744073709551615ULL).null().end_array();
  json.key("e").begin_object().end_object().end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":"two","c":true,"d":[-3,18446744073709551615,null],"e":{}})");
}

TEST(JsonWriter, IndentsForPeople) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.begin_object().field("a", 1).key("b").begin_array().value("x").end_array().end_object();
  EXPECT_EQ(json.text(), "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}");
}

TEST(JsonValue, ReadsBackWhatTheWriterWrites) {
  JsonWriter json;
  const std::string_view nasty("q\" b\\ n\n u\x01 ü \0 end", 21);
  json.begin_object().field("text", nasty).field("big", 18446744073709551615ULL);
  json.field("negative", -5).field("yes", true).key("list").begin_array().value(1).value(2);
  json.end_array().end_object();
  const Result<JsonValue> value = JsonValue::parse(json.text());
  ASSERT_TRUE(value.ok()) << value.error().message();
  EXPECT_EQ((*value)["text"].text(), nasty);
  EXPECT_EQ((*value)["big"].natural(), 18446744073709551615ULL);
  EXPECT_EQ((*value)["big"].integer(-1), -1) << "does not fit, hence the fallback";
  EXPECT_EQ((*value)["negative"].integer(), -5);
  EXPECT_TRUE((*value)["yes"].boolean());
  EXPECT_EQ((*value)["list"].items().size(), 2u);
  EXPECT_EQ((*value)["absent"].kind(), JsonValue::Kind::kNull);
  EXPECT_EQ((*value)["absent"]["deeper"].integer(7), 7);
}

TEST(JsonValue, UnderstandsEscapedTextAndNumbersOfEveryShape) {
  EXPECT_EQ(JsonValue::parse(R"("\u00fc\ud834\udd1e\/\b")")->text(), "ü𝄞/\b");
  EXPECT_EQ(JsonValue::parse(R"("\ud834")")->text(), "\uFFFD");
  EXPECT_EQ(JsonValue::parse(" -1.5e+3 ")->text(), "-1.5e+3");
  EXPECT_EQ(JsonValue::parse("0")->natural(9), 0u);
}

TEST(JsonValue, RefusesWhatIsNotJsonWithTheOffset) {
  const auto error = [](std::string_view text) {
    const Result<JsonValue> value = JsonValue::parse(text);
    return value.ok() ? std::string("accepted") : value.error().message();
  };
  EXPECT_EQ(error(""), "not JSON: the text ends where a value is expected at offset 0");
  EXPECT_EQ(error("{\"a\":1,}"), "not JSON: a member without a name at offset 7");
  EXPECT_EQ(error("{\"a\" 1}"), "not JSON: a colon is missing at offset 5");
  EXPECT_EQ(error("[1 2]"), "not JSON: a comma is missing at offset 3");
  EXPECT_EQ(error("01"), "not JSON: an unknown word at offset 0");
  EXPECT_EQ(error("1."), "not JSON: an unknown word at offset 0");
  EXPECT_EQ(error("nul"), "not JSON: an unknown word at offset 0");
  EXPECT_EQ(error("\"abc"), "not JSON: a string without an end at offset 4");
  EXPECT_EQ(error("\"\\x\""), "not JSON: an unknown escape at offset 3");
  EXPECT_EQ(error("\"\n\""), "not JSON: a bare control character at offset 1");
  EXPECT_EQ(error("1 1"), "not JSON: text after the value at offset 2");
  EXPECT_EQ(error(std::string(100, '[')), "not JSON: nested too deeply at offset 33");
}

}  // namespace
}  // namespace sabot::run
