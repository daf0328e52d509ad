// A file of one JSON value a line, as processes append to it; a line cut by a full disk or a kill
// is named and left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/read/json_value.hpp"

namespace sabot::run {

struct JsonLine {
  std::string text;
  JsonValue value;
};

struct JsonLines {
  std::vector<JsonLine> lines;
  std::vector<std::string> problems;
};

// what is the word for messages: "journal".
JsonLines read_json_lines(const std::string& what, const std::string& path,
                          std::uint64_t bytes_max);

}  // namespace sabot::run
