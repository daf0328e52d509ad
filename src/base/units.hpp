// Bytes and durations as people write them: "1MiB", "64k", "200ms", "1.5s".
//
// Sizes: an integer or decimal with B, k/KB/KiB, M/MB/MiB, G/GB/GiB, T…; k, M, G alone and with
// "iB" are powers of 1024, "KB", "MB", "GB" are powers of 1000. Durations: ns, us, ms, s, m, h; a
// bare number is an error, because people disagree on what it means. Both reject overflow and
// trailing text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace sabot {

Result<std::uint64_t> parse_bytes(std::string_view text);
Result<std::uint64_t> parse_duration_ns(std::string_view text);

// The shortest exact form: 1048576 → "1MiB", 1500 → "1500B".
std::string format_bytes(std::uint64_t bytes);
// Three significant digits: 1500000 → "1.5ms".
std::string format_duration_ns(std::uint64_t ns);

}  // namespace sabot
