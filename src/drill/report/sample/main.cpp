// Prints the sample in one of the formats, for outputs_test.py, which reads it back with parsers
// that are not ours: drill_report_sample FORMAT [skipped]
#include <string_view>

#include "base/log.hpp"
#include "drill/report/html.hpp"
#include "drill/report/json.hpp"
#include "drill/report/junit.hpp"
#include "drill/report/sample/report.hpp"
#include "drill/report/table.hpp"

int main(int count, char** words) {
  using namespace sabot::drill;
  if (count < 2) return 2;
  const std::string_view format = words[1];
  const bool is_skipped = count > 2 && std::string_view(words[2]) == "skipped";
  const DrillReport report = is_skipped ? report::skipped_report() : report::sample_report();
  std::string text;
  if (format == "table")
    text = report::table_of(report);
  else if (format == "junit")
    text = report::junit_of(report);
  else if (format == "json")
    text = report::json_of(report);
  else if (format == "html")
    text = report::html_of(report);
  sabot::log::write_all(1, text);
  return text.empty() ? 2 : 0;
}
