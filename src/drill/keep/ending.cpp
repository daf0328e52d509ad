// An ending as JSON and back.
#include "drill/keep/ending.hpp"

#include "run/json_writer.hpp"
#include "run/read/json_value.hpp"

namespace sabot::drill {
namespace {

constexpr std::string_view kStops[] = {"", "deadline", "output", "interrupted"};

void put_texts(run::JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

std::vector<std::string> texts_of(const run::JsonValue& json) {
  std::vector<std::string> out;
  for (const run::JsonValue& item : json.items()) out.push_back(item.text());
  return out;
}

}  // namespace

std::string_view word_of(Stop stop) { return kStops[static_cast<std::size_t>(stop)]; }

std::string to_json(const Ending& ending) {
  run::JsonWriter json;
  json.begin_object();
  json.field("started", ending.started).field("problem", ending.problem);
  json.field("exit_status", ending.exit_status).field("signal", ending.signal);
  json.field("stop", word_of(ending.stop));
  json.field("started_ns", ending.started_ns).field("finished_ns", ending.finished_ns);
  json.key("processes").begin_array();
  for (const ProcessLife& life : ending.processes) {
    json.begin_object();
    json.field("pid", life.pid).field("first_ns", life.first_ns).field("last_ns", life.last_ns);
    json.end_object();
  }
  json.end_array();
  put_texts(json, "stuck", ending.stuck);
  put_texts(json, "leaked", ending.leaked);
  json.end_object();
  return json.take();
}

Result<Ending> ending_of(std::string_view text) {
  const run::JsonValue json = SABOT_TRY(run::JsonValue::parse(text));
  Ending ending;
  ending.started = json["started"].boolean();
  ending.problem = json["problem"].text();
  ending.exit_status = static_cast<int>(json["exit_status"].integer());
  ending.signal = static_cast<int>(json["signal"].integer());
  for (std::size_t i = 0; i < std::size(kStops); ++i)
    if (kStops[i] == json["stop"].text()) ending.stop = static_cast<Stop>(i);
  ending.started_ns = json["started_ns"].natural();
  ending.finished_ns = json["finished_ns"].natural();
  for (const run::JsonValue& life : json["processes"].items())
    ending.processes.push_back(
        {life["pid"].integer(), life["first_ns"].natural(), life["last_ns"].natural()});
  ending.stuck = texts_of(json["stuck"]);
  ending.leaked = texts_of(json["leaked"]);
  return ending;
}

}  // namespace sabot::drill
