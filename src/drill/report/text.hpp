// Text of strangers, made fit to be shown: what a job printed, how a scenario is named.
//
// Everything that a person sees of a drill passes through printable() first, so that a log line can
// neither drive a terminal, nor break XML, nor turn the direction of a page; the escaping that XML
// and HTML want on top is escaped(). The JSON keeps the bytes as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sabot::drill::report {

enum class Lines : std::uint8_t { kOne, kMany };

// Without colour sequences; other control characters, and those that reorder text, as \xNN or
// \uNNNN; what is no UTF-8, and what XML does not allow, as U+FFFD. kOne makes line ends and tabs
// blanks.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// The printable text with & < > " and ' as references: fit for an element and for an attribute of
// XML and HTML. Line ends are kept.
std::string escaped(std::string_view text, Lines lines = Lines::kOne);
// The lines, each with a line end behind it, escaped.
std::string escaped_lines(const std::vector<std::string>& lines);

// How many columns of a terminal a printable text takes.
std::size_t columns_of(std::string_view text);
// Breaks a printable text at blanks, words that are longer than a line anywhere. Never empty.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);
// With blanks up to a width.
std::string left(std::string_view text, std::size_t columns);
std::string right(std::string_view text, std::size_t columns);

// "1.5ms", "93s", "1234s".
std::string duration_text(std::uint64_t ns);
// "12.345", for those who read numbers.
std::string seconds_text(std::uint64_t ns);
// "2026-11-30T18:02:47", UTC.
std::string utc_text(std::uint64_t epoch_ns);
// "1 case", "2 cases".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

}  // namespace sabot::drill::report
