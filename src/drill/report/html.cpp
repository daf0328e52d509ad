// Elements from top to bottom; every text of the result goes through text(), every other string is
// a literal of this file.
#include "drill/report/html.hpp"

#include <array>
#include <cstdio>

#include "drill/report/style.hpp"
#include "drill/report/summary.hpp"
#include "drill/report/text.hpp"
#include "drill/report/timeline.hpp"

namespace sabot::drill::report {
namespace {

std::string text(std::string_view content) { return escaped(content); }

std::string_view class_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds: return "holds";
    case Verdict::kFails: return "fails";
    case Verdict::kSkipped: break;
  }
  return "skipped";
}

std::string_view badge_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds: return "as expected";
    case Verdict::kFails: return "NOT AS EXPECTED";
    case Verdict::kSkipped: break;
  }
  return "skipped";
}

// The letter on a mark: colours alone do not tell it to everybody.
char letter_of(EventKind kind) {
  switch (kind) {
    case EventKind::kFault: return 'F';
    case EventKind::kDetection: return 'D';
    case EventKind::kAbort: return 'A';
    case EventKind::kRestart: return 'R';
    case EventKind::kEnded: return 'E';
    default: return '!';
  }
}

std::string percent_text(double percent) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f%%", percent);
  return buffer.data();
}

std::string cell(std::string_view content, std::string_view kind = "text") {
  return "<td class=\"" + std::string(kind) + "\">" + text(content) + "</td>";
}

std::string table_head(std::initializer_list<std::string_view> names) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string_view name : names) out += "<th>" + text(name) + "</th>";
  return out + "</tr></thead><tbody>\n";
}
constexpr std::string_view kTableEnd = "</tbody></table></div>\n";

std::string folded(std::string_view title, const std::string& content, bool is_open = false) {
  return std::string("<details") + (is_open ? " open=\"open\"" : "") + "><summary>" + text(title) +
         "</summary>\n" + content + "</details>\n";
}

std::string lane_html(const Lane& lane) {
  std::string out = "<div class=\"lane\"><span class=\"who\">" +
                    (lane.rank < 0 ? std::string("job") : "rank " + std::to_string(lane.rank)) +
                    "</span><div class=\"track\">";
  for (const Bar& bar : lane.bars)
    out += std::string("<span class=\"bar") + (bar.attempt > 0 ? " later" : "") +
           "\" style=\"left:" + percent_text(bar.from_percent) +
           ";width:" + percent_text(bar.to_percent - bar.from_percent) + "\" title=\"attempt " +
           std::to_string(bar.attempt) + "\"></span>";
  for (const Mark& mark : lane.marks) {
    std::string title = mark.text;
    if (mark.count > kMarkTextsMax)
      title += "\nand " + std::to_string(mark.count - kMarkTextsMax) + " more";
    out += "<span class=\"mark " + std::string(word_of(mark.kind)) +
           "\" style=\"left:" + percent_text(mark.percent) + "\" title=\"" +
           escaped(title, Lines::kMany) + "\">" + letter_of(mark.kind) + "</span>";
  }
  return out + "</div></div>\n";
}

std::string timeline_html(const Case& one) {
  const Timeline timeline = timeline_of(one);
  if (timeline.lanes.empty()) return "";
  std::string out = "<div class=\"timeline\">\n";
  for (const Lane& lane : timeline.lanes) out += lane_html(lane);
  out += "<div class=\"lane axis\"><span class=\"who\"></span><div class=\"track\">";
  for (const Tick& tick : timeline.ticks)
    out += std::string("<span class=\"tick") + (tick.percent >= 100 ? " last" : "") +
           "\" style=\"left:" + percent_text(tick.percent) + "\">" + text(tick.label) + "</span>";
  return out + "</div></div>\n</div>\n";
}

std::string number(std::string_view name, std::string_view value) {
  return "<li>" + text(name) + " <b>" + text(value) + "</b></li>";
}

std::string numbers_html(const Case& one) {
  std::string outcome(word_of(one.outcome));
  std::string out = "<ul class=\"numbers\">" + number("outcome", outcome);
  if (!one.expected.empty() && one.expected != outcome) out += number("expected", one.expected);
  out += number("detected", text_or_dash(one.detection_ns));
  out += number("recovered", text_or_dash(one.recovery_ns));
  out += number("attempts", std::to_string(one.attempts));
  if (one.steps_lost) out += number("steps lost", std::to_string(*one.steps_lost));
  if (one.check.ran) out += number("check", one.check.agrees ? "agrees" : "disagrees");
  return out + number("took", duration_text(one.duration_ns())) + "</ul>\n";
}

std::string requirements_html(const Case& one) {
  std::string out = table_head({"", "what", "expected", "observed"});
  for (const Requirement& requirement : one.requirements)
    out += "<tr>" + cell(requirement.holds ? "ok" : "FAIL", "number") + cell(requirement.what) +
           cell(requirement.expected) + cell(requirement.observed) + "</tr>\n";
  return out + std::string(kTableEnd);
}

std::string faults_html(const Case& one) {
  std::string out = table_head({"fault", "action", "fired", "where, or why not"});
  for (const FaultSeen& fault : one.faults) {
    std::string where = fault.fired_count > 0 ? fault.where : fault.why_not;
    if (!fault.refused.empty())
      where += (where.empty() ? "refused: " : "; refused: ") + fault.refused;
    out += "<tr>" + cell(fault.name) + cell(fault.action) +
           cell(std::to_string(fault.fired_count), "number") + cell(where) + "</tr>\n";
  }
  return out + std::string(kTableEnd);
}

std::string ranks_html(const Case& one) {
  std::string out =
      table_head({"rank", "attempt", "noticed by", "code", "from", "after the fault"});
  for (const RankSeen& rank : one.ranks)
    out += "<tr>" + cell(std::to_string(rank.rank), "number") +
           cell(std::to_string(rank.attempt), "number") +
           cell(rank.how.empty() ? "nothing" : rank.how) + cell(rank.code) + cell(rank.function) +
           cell(rank.detected_ns == 0 ? "-" : duration_text(rank.after_fault_ns), "number") +
           "</tr>\n";
  return out + std::string(kTableEnd);
}

std::string events_html(const Case& one) {
  std::string out = table_head({"time", "what", "rank", "attempt", ""});
  for (const Event& event : one.events)
    out += "<tr>" + cell(offset_text(one, event.time_ns), "number") + cell(word_of(event.kind)) +
           cell(event.rank < 0 ? "" : std::to_string(event.rank), "number") +
           cell(std::to_string(event.attempt), "number") + cell(event.text) + "</tr>\n";
  return out + std::string(kTableEnd);
}

std::string list_html(const std::vector<std::string>& texts, std::string_view kind) {
  if (texts.empty()) return "";
  std::string out = "<ul class=\"" + std::string(kind) + "\">\n";
  for (const std::string& one : texts) out += "<li>" + text(one) + "</li>\n";
  return out + "</ul>\n";
}

std::string record_html(const Case& one) {
  std::string out = "<dl class=\"facts\">\n";
  const auto fact = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) out += "<dt>" + text(name) + "</dt><dd>" + text(value) + "</dd>\n";
  };
  fact("scenario", one.scenario);
  fact("began", one.started_ns == 0 ? "" : utc_text(one.started_ns) + " UTC");
  if (one.deadline_ns > 0) fact("deadline", duration_text(one.deadline_ns));
  fact("ended with", one.status_text);
  fact("check", one.check.text);
  fact("scenario file", one.scenario_file);
  fact("run folder", one.run_folder);
  out += "</dl>\n" + list_html(one.problems, "complaints");
  if (!one.replay.empty()) out += "<pre>" + text(one.replay) + "</pre>\n";
  return out;
}

std::string case_html(const Case& one, std::size_t number) {
  const Verdict verdict = verdict_of(one);
  const bool is_open = verdict == Verdict::kFails;
  std::string out = "<article class=\"" + std::string(class_of(verdict)) + "\" id=\"case-" +
                    std::to_string(number) + "\">\n<h2><span class=\"verdict\">" +
                    text(badge_of(verdict)) + "</span>" + text(one.name) + "</h2>\n";
  if (!one.faults_line.empty())
    out += "<p class=\"quiet\"><code>" + text(one.faults_line) + "</code></p>\n";
  out += list_html(complaints_of(one), "complaints");
  if (verdict == Verdict::kSkipped) return out + "</article>\n";
  out += numbers_html(one) + timeline_html(one);
  if (!one.requirements.empty())
    out += folded("What was expected", requirements_html(one), is_open);
  if (!one.faults.empty()) out += folded("Faults", faults_html(one));
  if (!one.ranks.empty()) out += folded("What each rank noticed", ranks_html(one));
  if (!one.events.empty()) out += folded("Events", events_html(one));
  if (!one.log_tail.empty())
    out += folded("Last lines of the output", "<pre>" + escaped_lines(one.log_tail) + "</pre>\n");
  return out + folded("Record", record_html(one)) + "</article>\n";
}

std::string legend_html() {
  std::string out = "<p class=\"legend\">";
  for (const EventKind kind : {EventKind::kFault, EventKind::kDetection, EventKind::kAbort,
                               EventKind::kRestart, EventKind::kEnded, EventKind::kDeadline})
    out += "<span><span class=\"mark " + std::string(word_of(kind)) + "\">" + letter_of(kind) +
           "</span>" + std::string(word_of(kind)) + "</span>";
  return out + "</p>\n";
}

std::string header_html(const DrillReport& report) {
  const std::string_view kind = !report.skipped.empty() ? "skipped"
                                : report.holds()        ? "holds"
                                                        : "fails";
  std::string out = "<header>\n<h1>drill " + text(report.name) + "</h1>\n<p class=\"sentence " +
                    std::string(kind) + "\">" + text(verdict_sentence(report)) +
                    "</p>\n<dl class=\"facts\">\n";
  const auto fact = [&](std::string_view name, const std::string& value) {
    if (!value.empty())
      out += "<dt>" + text(name) + "</dt><dd><code>" + text(value) + "</code></dd>\n";
  };
  fact("command", command_text(report.command));
  fact("plan", report.plan_file);
  fact("seed", std::to_string(report.seed));
  fact("began", report.started_ns == 0 ? "" : utc_text(report.started_ns) + " UTC");
  if (report.finished_ns > report.started_ns)
    fact("took", duration_text(report.finished_ns - report.started_ns));
  for (const auto& [name, value] : report.environment) fact(name, value);
  fact("folder", report.folder);
  return out + "</dl>\n" + legend_html() + "</header>\n";
}

}  // namespace

std::string html_of(const DrillReport& report) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\""
      " content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
      "<title>drill " +
      text(report.name) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n" +
      header_html(report);
  out +=
      "<input type=\"checkbox\" id=\"only-failing\"/>"
      "<label class=\"filter\" for=\"only-failing\">only what is not as expected</label>\n"
      "<main>\n";
  std::size_t number = 0;
  for (const Case* one : all_cases(report)) out += case_html(*one, number++);
  return out + "</main>\n<footer>sabot " + text(report.version) +
         ". Times are of the host that ran the drill. Marks that would cover each other are moved"
         " apart; the lists of events have the exact times.</footer>\n</body>\n</html>\n";
}

}  // namespace sabot::drill::report
