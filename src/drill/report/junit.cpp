// Attributes hold one line, bodies many; escaped() makes both safe.
#include "drill/report/junit.hpp"

#include <set>

#include "base/text.hpp"
#include "drill/report/summary.hpp"
#include "drill/report/text.hpp"

namespace sabot::drill::report {
namespace {

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + escaped(value) + "\"";
}

void append_property(std::string& out, std::string_view name, std::string_view value) {
  out += "      <property" + attribute("name", name) + attribute("value", value) + "/>\n";
}

std::string one_line(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return join(views, "; ");
}

// Where the text of a rank says nothing more than that it never noticed, that is said.
std::string rank_text(const RankSeen& one) {
  std::string text = "rank " + std::to_string(one.rank) + ": ";
  if (one.how.empty()) return text + "never noticed";
  text += one.how;
  if (!one.code.empty()) text += " " + one.code;
  if (!one.function.empty()) text += " from " + one.function;
  return text + ", " + duration_text(one.after_fault_ns) + " after the fault";
}

std::string fault_text(const FaultSeen& one) {
  std::string text = "fault " + one.name + ": " + one.action + ", fired " +
                     (one.fired_count == 1 ? "once" : std::to_string(one.fired_count) + " times");
  if (!one.where.empty()) text += ", first at " + one.where;
  if (!one.why_not.empty()) text += "; " + one.why_not;
  if (!one.refused.empty()) text += "; refused: " + one.refused;
  return text;
}

std::string facts(const Case& one) {
  std::vector<std::string> lines;
  std::string numbers = "outcome: " + std::string(word_of(one.outcome));
  if (!one.expected.empty()) numbers += " (expected " + one.expected + ")";
  numbers += ", detected: " + text_or_dash(one.detection_ns) +
             ", recovered: " + text_or_dash(one.recovery_ns) +
             ", attempts: " + std::to_string(one.attempts);
  if (one.steps_lost) numbers += ", steps lost: " + std::to_string(*one.steps_lost);
  if (!one.status_text.empty()) numbers += ", " + one.status_text;
  lines.push_back(std::move(numbers));
  if (!one.faults_line.empty()) lines.push_back("faults: " + one.faults_line);
  for (const FaultSeen& fault : one.faults) lines.push_back(fault_text(fault));
  for (const RankSeen& rank : one.ranks) lines.push_back(rank_text(rank));
  if (!one.check.text.empty()) lines.push_back("check: " + one.check.text);
  for (const std::string& leaked : one.leaked) lines.push_back("left behind: " + leaked);
  if (!one.run_folder.empty()) lines.push_back("run folder: " + one.run_folder);
  if (!one.replay.empty()) lines.push_back("again: " + one.replay);
  if (!one.log_tail.empty()) lines.push_back("last lines of the output:");
  return escaped_lines(lines);
}

void append_case(std::string& out, const DrillReport& report, const Case& one,
                 const std::string& name) {
  out += "    <testcase" + attribute("classname", "drill." + report.name) +
         attribute("name", name) + attribute("time", seconds_text(one.duration_ns())) + ">\n";
  const std::vector<std::string> complaints = complaints_of(one);
  if (one.outcome == Outcome::kSkipped) {
    out += "      <skipped" + attribute("message", one_line(complaints)) + "/>\n";
  } else if (!one.holds) {
    const std::string element = one.outcome == Outcome::kNotRecorded ? "error" : "failure";
    out += "      <" + element + attribute("message", one_line(complaints)) +
           attribute("type", word_of(one.outcome)) + ">" + escaped_lines(complaints) + "</" +
           element + ">\n";
  }
  out += "      <system-out>" + facts(one) + escaped_lines(one.log_tail) + "</system-out>\n";
  out += "    </testcase>\n";
}

std::string distinct(const std::string& name, std::set<std::string>& taken) {
  std::string candidate = name.empty() ? "unnamed" : name;
  for (int n = 2; !taken.insert(candidate).second; ++n)
    candidate = name + " (" + std::to_string(n) + ")";
  return candidate;
}

std::string totals(const Counts& counts, std::uint64_t duration_ns) {
  return attribute("tests", std::to_string(counts.cases)) +
         attribute("failures", std::to_string(counts.failing - counts.not_recorded)) +
         attribute("errors", std::to_string(counts.not_recorded)) +
         attribute("time", seconds_text(duration_ns));
}

// A drill that was skipped as a whole is one skipped case: a file without cases is an error to
// some readers.
void append_skipped_drill(std::string& out, const DrillReport& report) {
  out += "    <testcase" + attribute("classname", "drill." + report.name) +
         attribute("name", report.name) + attribute("time", "0.000") + ">\n      <skipped" +
         attribute("message", report.skipped) + "/>\n    </testcase>\n";
}

}  // namespace

std::string junit_of(const DrillReport& report) {
  Counts counts = counts_of(report);
  const bool is_skipped = !report.skipped.empty() && counts.cases == 0;
  if (is_skipped) counts.cases = counts.skipped = 1;
  const std::uint64_t duration_ns =
      report.finished_ns > report.started_ns ? report.finished_ns - report.started_ns : 0;
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "sabot drill") +
      totals(counts, duration_ns) + ">\n  <testsuite" + attribute("name", "drill." + report.name) +
      totals(counts, duration_ns) + attribute("skipped", std::to_string(counts.skipped)) +
      attribute("timestamp", utc_text(report.started_ns));
  for (const auto& [name, value] : report.environment)
    if (name == "host") out += attribute("hostname", value);
  out += ">\n    <properties>\n";
  append_property(out, "sabot", report.version);
  append_property(out, "plan", report.plan_file);
  append_property(out, "folder", report.folder);
  append_property(out, "command", command_text(report.command));
  append_property(out, "seed", std::to_string(report.seed));
  for (const auto& [name, value] : report.environment) append_property(out, name, value);
  if (report.left_out > 0)
    append_property(out, "left out by the budget", std::to_string(report.left_out));
  out += "    </properties>\n";
  if (is_skipped) append_skipped_drill(out, report);
  std::set<std::string> taken;
  for (const Case* one : all_cases(report))
    append_case(out, report, *one, distinct(one->name, taken));
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace sabot::drill::report
