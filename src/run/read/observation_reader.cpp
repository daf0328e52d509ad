// Reading the records of what was seen.
#include "run/read/observation_reader.hpp"

#include <algorithm>
#include <optional>

#include "run/read/folder_listing.hpp"
#include "run/read/json_lines.hpp"

namespace sabot::run {
namespace {

// kLinesMax lines of a kilobyte are far less: more is no record of ours.
constexpr std::uint64_t kSeenBytesMax = 4ULL * 1024 * 1024;

std::optional<SeenKind> kind_of(std::string_view word) {
  for (int i = 0; i < kSeenKindCount; ++i)
    if (word_of(static_cast<SeenKind>(i)) == word) return static_cast<SeenKind>(i);
  return std::nullopt;
}

SeenLine line_of(const JsonValue& json, SeenKind kind) {
  SeenLine line;
  line.kind = kind;
  line.epoch_ns = json["time_ns"].natural();
  line.host = json["host"].text();
  line.pid = json["pid"].integer();
  line.function = json["function"].text();
  line.code = json["code"].text();
  line.comm = json["comm"].text();
  line.attempt = static_cast<int>(json["attempt"].integer());
  line.rank = static_cast<int>(json["rank"].integer(-1));
  line.world_rank = static_cast<int>(json["world_rank"].integer(-1));
  line.nth = json["nth"].natural();
  line.injected = json["injected"].boolean();
  return line;
}

}  // namespace

ObservationContent read_observations(const std::string& run_folder) {
  ObservationContent content;
  const std::string folder = run_folder + "/seen";
  for (const std::string& name : list_folder(folder, ".jsonl")) {
    const JsonLines read =
        read_json_lines("record of what was seen", folder + "/" + name, kSeenBytesMax);
    content.problems.insert(content.problems.end(), read.problems.begin(), read.problems.end());
    // A kind that a newer version writes is not ours to judge.
    for (const JsonLine& line : read.lines)
      if (const std::optional<SeenKind> kind = kind_of(line.value["seen"].text()))
        content.lines.push_back(line_of(line.value, *kind));
  }
  std::stable_sort(content.lines.begin(), content.lines.end(),
                   [](const SeenLine& a, const SeenLine& b) { return a.epoch_ns < b.epoch_ns; });
  return content;
}

}  // namespace sabot::run
