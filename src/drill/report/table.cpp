// Columns: verdict 6, name (all that is left), outcome 13, detected 8, recovered 9, attempts 8.
#include "drill/report/table.hpp"

#include <algorithm>

#include "drill/report/summary.hpp"
#include "drill/report/text.hpp"

namespace sabot::drill::report {
namespace {

constexpr std::size_t kColumnsMin = 80;
constexpr std::size_t kIndent = 6;
constexpr std::size_t kGap = 2;
constexpr std::size_t kOutcome = 13;  // "fails-cleanly"
constexpr std::size_t kDetected = 8;
constexpr std::size_t kRecovered = 9;
constexpr std::size_t kAttempts = 8;
constexpr std::size_t kNumbers =
    kOutcome + kDetected + kRecovered + kAttempts + 4 * kGap;  // with the gap before each

class Table {
 public:
  explicit Table(const TableOptions& options)
      : coloured_(options.coloured), columns_(std::max(options.columns, kColumnsMin)) {}

  void heading(const DrillReport& report) {
    std::string text = "drill " + printable(report.name);
    if (!report.command.empty()) text += ": " + command_text(report.command);
    for (const std::string& line : wrapped(text, columns_)) out_ += paint("1", line) + "\n";
    if (all_cases(report).empty()) return;
    out_ += "\n" + left("", kIndent) + left("case", name_columns());
    out_ += numbers("outcome", "detected", "recovered", "attempts") + "\n";
  }

  void row(const Case& one) {
    const std::string name = printable(one.name);
    const std::string cells =
        numbers(one.outcome == Outcome::kSkipped ? "skipped" : word_of(one.outcome),
                text_or_dash(one.detection_ns), text_or_dash(one.recovery_ns),
                one.attempts == 0 ? "-" : std::to_string(one.attempts));
    if (columns_of(name) <= name_columns()) {
      out_ += mark(verdict_of(one)) + left(name, name_columns()) + cells + "\n";
    } else {
      std::string prefix = mark(verdict_of(one));
      for (const std::string& line : wrapped(name, columns_ - kIndent)) {
        out_ += prefix + line + "\n";
        prefix = left("", kIndent);
      }
      out_ += left("", kIndent + name_columns()) + cells + "\n";
    }
    paragraph(one.faults_line, "2");
    for (const std::string& complaint : complaints_of(one)) paragraph(complaint, "");
    if (verdict_of(one) == Verdict::kFails) to_copy("again: ", one.replay);
  }

  void ending(const DrillReport& report) {
    const std::string code = !report.skipped.empty() ? "33" : report.holds() ? "32" : "31";
    std::string text = "drill: " + verdict_sentence(report) + " (";
    if (report.finished_ns > report.started_ns)
      text += duration_text(report.finished_ns - report.started_ns) + ", ";
    text += "seed " + std::to_string(report.seed) + ")";
    out_ += "\n";
    for (const std::string& line : wrapped(text, columns_)) out_ += paint(code, line) + "\n";
    to_copy("record: ", report.folder);
  }

  std::string take() { return std::move(out_); }

 private:
  std::size_t name_columns() const { return columns_ - kIndent - kNumbers; }

  std::string paint(std::string_view code, const std::string& text) const {
    if (!coloured_ || code.empty()) return text;
    return "\033[" + std::string(code) + "m" + text + "\033[0m";
  }

  static std::string numbers(std::string_view outcome, std::string_view detected,
                             std::string_view recovered, std::string_view attempts) {
    const std::string gap(kGap, ' ');
    return gap + left(outcome, kOutcome) + gap + right(detected, kDetected) + gap +
           right(recovered, kRecovered) + gap + right(attempts, kAttempts);
  }

  std::string mark(Verdict verdict) const {
    switch (verdict) {
      case Verdict::kHolds: return " " + paint("32", "ok") + "   ";
      case Verdict::kSkipped: return " " + paint("33", "skip") + " ";
      case Verdict::kFails: break;
    }
    return " " + paint("31;1", "FAIL") + " ";
  }

  // In one piece, however long: a path that is broken over lines cannot be copied.
  void to_copy(std::string_view title, std::string_view text) {
    if (text.empty()) return;
    out_ += std::string(kIndent, ' ') + paint("2", std::string(title) + printable(text)) + "\n";
  }

  void paragraph(std::string_view text, std::string_view code) {
    if (text.empty()) return;
    std::string indent(kIndent, ' ');
    for (const std::string& line : wrapped(printable(text), columns_ - kIndent - 2)) {
      out_ += indent + paint(code, line) + "\n";
      indent = std::string(kIndent + 2, ' ');
    }
  }

  std::string out_;
  bool coloured_;
  std::size_t columns_;
};

}  // namespace

std::string table_of(const DrillReport& report, const TableOptions& options) {
  Table table(options);
  table.heading(report);
  for (const Case* one : all_cases(report)) table.row(*one);
  table.ending(report);
  return table.take();
}

}  // namespace sabot::drill::report
