// Splitting and parsing.
#include "run/read/json_lines.hpp"

#include "base/text.hpp"
#include "run/text_file.hpp"

namespace sabot::run {

JsonLines read_json_lines(const std::string& what, const std::string& path,
                          std::uint64_t bytes_max) {
  JsonLines out;
  const Result<std::string> text =
      read_text_file(what, path, {.bytes_max = bytes_max, .may_be_empty = true});
  if (!text.ok()) {
    out.problems.push_back(text.error().message());
    return out;
  }
  std::size_t number = 0;
  for (const std::string_view piece : split(*text, '\n')) {
    ++number;
    if (piece.empty()) continue;
    Result<JsonValue> json = JsonValue::parse(piece);
    if (json.ok())
      out.lines.push_back({std::string(piece), std::move(json).value()});
    else
      out.problems.push_back(path + ":" + std::to_string(number) + ": " + json.error().message());
  }
  return out;
}

}  // namespace sabot::run
