// Requests and answers to and from their lines.
#include "launch/control/request.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.hpp"
#include "run/json_writer.hpp"

namespace sabot::launch::control {
namespace {

using run::JsonValue;
using Kind = JsonValue::Kind;

constexpr std::array<VerbRow, 6> kVerbs{{{Verb::kStatus, "status", false, false},
                                         {Verb::kArm, "arm", true, true},
                                         {Verb::kDisarm, "disarm", true, true},
                                         {Verb::kFire, "fire", true, true},
                                         {Verb::kRelease, "release", true, false},
                                         {Verb::kAdd, "add", false, false}}};
constexpr std::size_t kNameBytesMax = 256;

Error refused(std::string text) { return Error(Code::kInvalidArgument, std::move(text)); }

std::string close_to(std::string_view word, std::span<const std::string_view> words) {
  const auto close = nearest(word, words);
  return close ? "; did you mean '" + std::string(*close) + "'?" : "";
}

std::vector<std::string_view> keys_of(const VerbRow& row) {
  std::vector<std::string_view> keys{"do"};
  if (row.takes_name) keys.push_back("name");
  if (row.verb == Verb::kFire) keys.push_back("rank");
  if (row.verb == Verb::kAdd) keys.insert(keys.end(), {"file", "text"});
  return keys;
}

Status check_keys(const JsonValue& object, const VerbRow& row) {
  const std::vector<std::string_view> known = keys_of(row);
  const std::vector<std::string>& names = object.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(known.begin(), known.end(), names[i]) == known.end())
      return refused("'" + std::string(row.word) + "' takes no key " + quoted(names[i]) +
                     close_to(names[i], known));
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return refused("key " + quoted(names[i]) + " stands there twice");
  }
  return {};
}

// A text member; absent is "".
Result<std::string> text_member(const JsonValue& object, std::string_view key,
                                std::size_t bytes_max) {
  const JsonValue& member = object[key];
  if (member.kind() == Kind::kNull) return std::string();
  if (member.kind() != Kind::kText) return refused("'" + std::string(key) + "' is no text");
  if (member.text().size() > bytes_max)
    return refused("'" + std::string(key) + "' is longer than " + std::to_string(bytes_max) +
                   " bytes");
  return member.text();
}

Result<const VerbRow*> row_asked(const JsonValue& object) {
  const JsonValue& word = object["do"];
  if (word.kind() != Kind::kText) return refused("a request says what to 'do', as a text");
  if (const std::optional<Verb> verb = verb_named(word.text())) return &row_of(*verb);
  std::vector<std::string_view> words;
  for (const VerbRow& row : kVerbs) words.push_back(row.word);
  return refused("unknown request " + quoted(word.text()) + close_to(word.text(), words));
}

Result<std::optional<std::int32_t>> rank_member(const JsonValue& object) {
  const JsonValue& member = object["rank"];
  if (member.kind() == Kind::kNull) return std::optional<std::int32_t>();
  const std::int64_t rank = member.kind() == Kind::kNumber ? member.integer(-1) : -1;
  if (rank < 0 || rank > kRankMax)
    return refused("'rank' is no whole number from 0 to " + std::to_string(kRankMax));
  return std::optional<std::int32_t>(static_cast<std::int32_t>(rank));
}

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  std::size_t at = 0;
  while (at < text.size() && at < bytes_max) {
    const std::size_t length = std::max<std::size_t>(run::utf8_length(text.substr(at)), 1);
    const bool is_control = static_cast<unsigned char>(text[at]) < 0x20 || text[at] == 0x7F;
    shown.append(is_control ? "?" : text.substr(at, length));
    at += length;
  }
  return at < text.size() ? shown + "…" : shown;
}

std::string quoted(std::string_view word) {
  constexpr std::size_t kShown = 64;
  return "'" + printable(word, kShown) + "'";
}

std::span<const VerbRow> verb_rows() { return kVerbs; }

const VerbRow& row_of(Verb verb) { return kVerbs.at(static_cast<std::size_t>(verb)); }

std::optional<Verb> verb_named(std::string_view word) {
  for (const VerbRow& row : kVerbs)
    if (row.word == word) return row.verb;
  return std::nullopt;
}

Result<Request> parse_request(std::string_view line) {
  if (line.size() > kRequestBytesMax)
    return refused("a request is at most " + std::to_string(kRequestBytesMax) + " bytes long");
  Result<JsonValue> parsed = JsonValue::parse(line);
  if (!parsed.ok()) return refused("a request is one line of JSON: " + parsed.error().message());
  if (parsed->kind() != Kind::kObject) return refused("a request is a JSON object");
  const VerbRow* const row = SABOT_TRY(row_asked(*parsed));
  SABOT_TRY(check_keys(*parsed, *row));
  Request request;
  request.verb = row->verb;
  request.name = SABOT_TRY(text_member(*parsed, "name", kNameBytesMax));
  request.rank = SABOT_TRY(rank_member(*parsed));
  request.file = SABOT_TRY(text_member(*parsed, "file", kRequestBytesMax));
  request.text = SABOT_TRY(text_member(*parsed, "text", kRequestBytesMax));
  if (row->needs_name && request.name.empty())
    return refused("'" + std::string(row->word) + "' needs the 'name' of a fault");
  if (row->verb == Verb::kAdd && request.text.empty())
    return refused("'add' needs the 'text' of a scenario");
  return request;
}

std::string to_line(const Request& request) {
  run::JsonWriter json;
  json.begin_object().field("do", row_of(request.verb).word);
  if (!request.name.empty()) json.field("name", request.name);
  if (request.rank) json.field("rank", *request.rank);
  if (!request.file.empty()) json.field("file", request.file);
  if (!request.text.empty()) json.field("text", request.text);
  return json.end_object().take();
}

std::string to_line(const Answer& answer) {
  run::JsonWriter json;
  json.begin_object().field("ok", answer.is_ok).field("text", answer.text);
  std::string line = json.end_object().take();
  if (answer.status.empty()) return line;
  line.pop_back();
  return line + ",\"status\":" + answer.status + "}";
}

Result<JsonValue> parse_answer(std::string_view line) {
  JsonValue answer = SABOT_TRY(JsonValue::parse(line));
  if (answer["ok"].kind() != Kind::kBool || answer["text"].kind() != Kind::kText)
    return refused("it is no answer");
  return answer;
}

}  // namespace sabot::launch::control
