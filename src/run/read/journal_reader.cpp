// Reading the journals of a run back: the ground truth for the end of a run and for reports.
#include "run/read/journal_reader.hpp"

#include <algorithm>

#include "run/read/folder_listing.hpp"
#include "run/read/json_lines.hpp"

namespace sabot::run {
namespace {

constexpr std::uint64_t kJournalBytesMax = 256ULL * 1024 * 1024;

JournalLine line_of(const JsonValue& json, std::string_view text) {
  JournalLine line;
  line.text = std::string(text);
  line.epoch_ns = json["time_ns"].natural();
  line.host = json["host"].text();
  line.pid = json["pid"].integer();
  line.scenario = json["scenario"].text();
  line.fault = json["fault"].text();
  line.action = json["action"].text();
  line.code = json["code"].text();
  line.refused = json["refused"].text();
  line.function = json["function"].text();
  line.comm = json["comm"].text();
  line.attempt = static_cast<int>(json["attempt"].integer());
  line.rank = static_cast<int>(json["rank"].integer(-1));
  line.world_rank = static_cast<int>(json["world_rank"].integer(-1));
  line.nth = json["nth"].natural();
  line.nth_collective = json["nth_collective"].natural();
  line.match = json["match"].natural();
  line.budget_claim = json["budget_claim"].natural();
  line.injection = json["injection"].natural();
  return line;
}

}  // namespace

JournalContent read_journals(const std::string& run_folder) {
  JournalContent content;
  const std::string folder = run_folder + "/journal";
  for (const std::string& name : list_folder(folder, ".jsonl")) {
    JsonLines read = read_json_lines("journal", folder + "/" + name, kJournalBytesMax);
    content.problems.insert(content.problems.end(), read.problems.begin(), read.problems.end());
    for (const JsonLine& line : read.lines) content.lines.push_back(line_of(line.value, line.text));
  }
  std::stable_sort(
      content.lines.begin(), content.lines.end(),
      [](const JournalLine& a, const JournalLine& b) { return a.epoch_ns < b.epoch_ns; });
  return content;
}

}  // namespace sabot::run
