// Reading the journals of a run back: the ground truth for the end of a run and for reports.
#include "run/read/journal_reader.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "run/read/folder_listing.hpp"
#include "run/read/json_value.hpp"
#include "run/text_file.hpp"

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

void read_one(const std::string& path, JournalContent& content) {
  const Result<std::string> text =
      read_text_file("journal", path, {.bytes_max = kJournalBytesMax, .may_be_empty = true});
  if (!text.ok()) {
    content.problems.push_back(text.error().message());
    return;
  }
  std::size_t number = 0;
  for (const std::string_view piece : split(*text, '\n')) {
    ++number;
    if (piece.empty()) continue;
    const Result<JsonValue> json = JsonValue::parse(piece);
    if (json.ok())
      content.lines.push_back(line_of(*json, piece));
    else
      content.problems.push_back(path + ":" + std::to_string(number) + ": " +
                                 json.error().message());
  }
}

}  // namespace

JournalContent read_journals(const std::string& run_folder) {
  JournalContent content;
  const std::string folder = run_folder + "/journal";
  for (const std::string& name : list_folder(folder, ".jsonl"))
    read_one(folder + "/" + name, content);
  std::stable_sort(
      content.lines.begin(), content.lines.end(),
      [](const JournalLine& a, const JournalLine& b) { return a.epoch_ns < b.epoch_ns; });
  return content;
}

}  // namespace sabot::run
