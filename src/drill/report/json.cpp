// Times and durations are whole nanoseconds; what never happened is null, never 0.
#include "drill/report/json.hpp"

#include "drill/report/summary.hpp"
#include "run/json_writer.hpp"

namespace sabot::drill::report {
namespace {

using run::JsonWriter;

void write_time(JsonWriter& json, std::string_view key, std::uint64_t ns) {
  json.key(key);
  if (ns == 0)
    json.null();
  else
    json.value(ns);
}

void write_optional(JsonWriter& json, std::string_view key,
                    const std::optional<std::uint64_t>& number) {
  json.key(key);
  if (number)
    json.value(*number);
  else
    json.null();
}

void write_rank(JsonWriter& json, int rank) {
  json.key("rank");
  if (rank < 0)
    json.null();
  else
    json.value(rank);
}

void write_texts(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_requirements(JsonWriter& json, const std::vector<Requirement>& requirements) {
  json.key("requirements").begin_array();
  for (const Requirement& one : requirements)
    json.begin_object()
        .field("what", one.what)
        .field("expected", one.expected)
        .field("observed", one.observed)
        .field("holds", one.holds)
        .field("reason", one.reason)
        .end_object();
  json.end_array();
}

void write_faults(JsonWriter& json, const std::vector<FaultSeen>& faults) {
  json.key("faults").begin_array();
  for (const FaultSeen& one : faults) {
    json.begin_object()
        .field("name", one.name)
        .field("action", one.action)
        .field("fired_count", one.fired_count);
    write_time(json, "first_ns", one.first_ns);
    json.field("where", one.where)
        .field("why_not", one.why_not)
        .field("refused", one.refused)
        .end_object();
  }
  json.end_array();
}

void write_ranks(JsonWriter& json, const std::vector<RankSeen>& ranks) {
  json.key("ranks").begin_array();
  for (const RankSeen& one : ranks) {
    json.begin_object();
    write_rank(json, one.rank);
    json.field("attempt", one.attempt)
        .field("how", one.how)
        .field("function", one.function)
        .field("code", one.code);
    write_time(json, "detected_ns", one.detected_ns);
    json.key("after_fault_ns");
    if (one.detected_ns == 0)
      json.null();
    else
      json.value(one.after_fault_ns);
    json.end_object();
  }
  json.end_array();
}

void write_events(JsonWriter& json, const std::vector<Event>& events) {
  json.key("events").begin_array();
  for (const Event& one : events) {
    json.begin_object().field("kind", word_of(one.kind)).field("time_ns", one.time_ns);
    write_rank(json, one.rank);
    json.field("attempt", one.attempt).field("text", one.text).end_object();
  }
  json.end_array();
}

void write_case(JsonWriter& json, const Case& one) {
  json.begin_object()
      .field("name", one.name)
      .field("scenario", one.scenario)
      .field("scenario_file", one.scenario_file)
      .field("run_folder", one.run_folder)
      .field("faults_line", one.faults_line)
      .field("outcome", word_of(one.outcome))
      .field("expected", one.expected)
      .field("holds", one.holds);
  write_texts(json, "reasons", one.reasons);
  json.field("note", one.note);
  write_requirements(json, one.requirements);
  write_time(json, "started_ns", one.started_ns);
  write_time(json, "finished_ns", one.finished_ns);
  json.field("duration_ns", one.duration_ns()).field("deadline_ns", one.deadline_ns);
  write_time(json, "fault_ns", one.fault_ns);
  write_optional(json, "detection_ns", one.detection_ns);
  write_optional(json, "recovery_ns", one.recovery_ns);
  json.field("attempts", one.attempts);
  write_optional(json, "steps_lost", one.steps_lost);
  json.key("check")
      .begin_object()
      .field("ran", one.check.ran)
      .field("agrees", one.check.agrees)
      .field("text", one.check.text)
      .end_object();
  write_faults(json, one.faults);
  write_ranks(json, one.ranks);
  write_events(json, one.events);
  json.field("exit_status", one.exit_status).field("status_text", one.status_text);
  write_texts(json, "leaked", one.leaked);
  write_texts(json, "problems", one.problems);
  write_texts(json, "log_tail", one.log_tail);
  json.field("replay", one.replay).end_object();
}

}  // namespace

std::string json_of(const DrillReport& report) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.begin_object()
      .field("drill_version", kJsonVersion)
      .field("sabot", report.version)
      .field("name", report.name)
      .field("plan_file", report.plan_file)
      .field("folder", report.folder);
  write_texts(json, "command", report.command);
  json.field("seed", report.seed).key("environment").begin_array();
  for (const auto& [name, value] : report.environment)
    json.begin_object().field("name", name).field("value", value).end_object();
  json.end_array();
  write_time(json, "started_ns", report.started_ns);
  write_time(json, "finished_ns", report.finished_ns);
  json.field("holds", report.holds()).field("skipped", report.skipped);
  const Counts counts = counts_of(report);
  json.key("counts")
      .begin_object()
      .field("cases", counts.cases)
      .field("holding", counts.holding)
      .field("failing", counts.failing)
      .field("skipped", counts.skipped)
      .field("not_recorded", counts.not_recorded)
      .field("left_out", report.left_out)
      .end_object();
  json.key("baseline");
  if (report.baseline)
    write_case(json, *report.baseline);
  else
    json.null();
  json.key("cases").begin_array();
  for (const Case& one : report.cases) write_case(json, one);
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace sabot::drill::report
