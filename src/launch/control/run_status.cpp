// A run's status as JSON and as a table.
#include "launch/control/run_status.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "run/json_writer.hpp"

namespace sabot::launch::control {
namespace {

using run::JsonValue;
using run::JsonWriter;

void write_fault(JsonWriter& json, const FaultStatus& fault) {
  json.begin_object().field("name", fault.name).field("added", fault.added);
  json.field("armed", fault.is_armed).field("fired", fault.fired);
  json.key("budget");
  fault.budget == 0 ? json.null() : json.value(fault.budget);
  json.key("left");
  fault.budget == 0 ? json.null() : json.value(fault.left);
  json.key("waits_for");
  fault.waits_for.empty() ? json.null() : json.value(fault.waits_for);
  json.key("held").begin_array();
  for (const HeldStatus& held : fault.held) {
    json.begin_object().field("rank", held.rank).field("pid", held.pid);
    json.field("for_ms", held.for_ms).end_object();
  }
  json.end_array().end_object();
}

FaultStatus fault_of(const JsonValue& json) {
  FaultStatus fault;
  fault.name = json["name"].text();
  fault.added = json["added"].natural();
  fault.is_armed = json["armed"].boolean();
  fault.fired = json["fired"].natural();
  fault.budget = json["budget"].natural();
  fault.left = json["left"].natural();
  fault.waits_for = json["waits_for"].text();
  for (const JsonValue& held : json["held"].items())
    fault.held.push_back(
        {held["rank"].integer(-1), held["pid"].integer(), held["for_ms"].natural()});
  return fault;
}

std::string seconds(std::uint64_t ms) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(ms) / 1000.0);
  return text.data();
}

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string held_text(const std::vector<HeldStatus>& held) {
  if (held.empty()) return "0";
  constexpr std::size_t kShown = 4;
  std::string text = std::to_string(held.size()) + " (";
  for (std::size_t i = 0; i < held.size() && i < kShown; ++i) {
    if (i > 0) text += ", ";
    text += held[i].rank >= 0 ? "rank " + std::to_string(held[i].rank)
                              : "process " + std::to_string(held[i].pid);
    text += " for " + seconds(held[i].for_ms);
  }
  return text + (held.size() > kShown ? ", …)" : ")");
}

std::string state_text(const FaultStatus& fault) {
  std::string text = fault.is_armed ? "armed" : "disarmed";
  if (!fault.waits_for.empty()) text += ", asked to fire on " + fault.waits_for;
  return text;
}

using Row = std::array<std::string, 5>;

// Columns as wide as their widest word; the last one ends the line.
std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths.at(i) = std::max(widths.at(i), row.at(i).size());
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += row.at(i) + std::string(widths.at(i) + 2 - row.at(i).size(), ' ');
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::string to_json(const RunStatus& status) {
  JsonWriter json;
  json.begin_object().field("run", status.run_folder).field("host", status.host);
  json.field("launcher_pid", status.launcher_pid).field("running_ms", status.running_ms);
  json.field("attached", status.attached).field("alive", status.alive);
  json.field("elsewhere", status.elsewhere).field("calls_seen", status.calls_seen);
  json.key("faults").begin_array();
  for (const FaultStatus& fault : status.faults) write_fault(json, fault);
  json.end_array().key("switches").begin_array();
  for (const SwitchStatus& one : status.switches)
    json.begin_object().field("name", one.name).field("on", one.is_on).end_object();
  json.end_array().key("problems").begin_array();
  for (const std::string& problem : status.problems) json.value(problem);
  return json.end_array().end_object().take();
}

RunStatus status_of(const JsonValue& json) {
  RunStatus status;
  status.run_folder = json["run"].text();
  status.host = json["host"].text();
  status.launcher_pid = json["launcher_pid"].integer();
  status.running_ms = json["running_ms"].natural();
  status.attached = json["attached"].natural();
  status.alive = json["alive"].natural();
  status.elsewhere = json["elsewhere"].natural();
  status.calls_seen = json["calls_seen"].natural();
  for (const JsonValue& fault : json["faults"].items()) status.faults.push_back(fault_of(fault));
  for (const JsonValue& one : json["switches"].items())
    status.switches.push_back({one["name"].text(), one["on"].boolean()});
  for (const JsonValue& problem : json["problems"].items())
    status.problems.push_back(problem.text());
  return status;
}

std::string text_of(const RunStatus& status) {
  std::string text = "run " + status.run_folder + ", " + seconds(status.running_ms) +
                     ", controlled on host " + status.host + " by process " +
                     std::to_string(status.launcher_pid) + "\n";
  text += plural(status.attached, "process attached", "processes attached") + ", " +
          std::to_string(status.alive) + " alive here";
  if (status.elsewhere > 0)
    text +=
        ", " + std::to_string(status.elsewhere) + " on other hosts, out of reach of this control";
  text += ", " + plural(status.calls_seen, "call seen", "calls seen") + "\n";
  std::vector<Row> rows{{"fault", "state", "fired", "left", "held now"}};
  for (const FaultStatus& fault : status.faults)
    rows.push_back({fault.name, state_text(fault), std::to_string(fault.fired),
                    fault.budget == 0
                        ? "no limit"
                        : std::to_string(fault.left) + " of " + std::to_string(fault.budget),
                    held_text(fault.held)});
  text += status.faults.empty() ? "no faults\n" : table(rows);
  for (const SwitchStatus& one : status.switches)
    text += "switch " + one.name + " is " + (one.is_on ? "on" : "off") + "\n";
  for (const std::string& problem : status.problems) text += problem + "\n";
  return text;
}

}  // namespace sabot::launch::control
