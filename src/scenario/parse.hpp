// From text to scenarios: TOML files and the one-line form of --fault and SABOT_FAULT.
//
// Pure: the caller reads files. What it may not even read (a directory, 100 MB) it checks with
// check_size; everything about the contents is checked here. Errors carry Code::kInvalidArgument
// and a text of one or more lines, each naming the file and line, or the line with a caret below
// the place.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

inline constexpr std::uint64_t kScenarioBytesMax = 1ULL << 20;
inline constexpr std::uint64_t kLineBytesMax = 16ULL << 10;

// Whether a file of this size can be a scenario at all; name is used in the text.
Status check_size(std::uint64_t bytes, std::string_view name);
// Whether these bytes are text: not empty, no NUL, valid UTF-8, not too large.
Status check_text(std::string_view text, std::string_view name);

// filename is used in messages only.
Result<Scenario> parse_toml(std::string_view text, std::string_view filename);
// origin says where the line came from: "--fault", "SABOT_FAULT".
Result<Scenario> parse_line(std::string_view text, std::string_view origin);

}  // namespace sabot::scenario
