// Parsing and printing of sizes and durations.
#include "base/units.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace sabot {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 17> kByteUnits{{{"B", 1},
                                           {"", 1},
                                           {"k", kKi},
                                           {"K", kKi},
                                           {"KiB", kKi},
                                           {"kB", 1e3},
                                           {"KB", 1e3},
                                           {"M", kKi* kKi},
                                           {"MiB", kKi* kKi},
                                           {"MB", 1e6},
                                           {"G", kKi* kKi* kKi},
                                           {"GiB", kKi* kKi* kKi},
                                           {"GB", 1e9},
                                           {"T", kKi* kKi* kKi* kKi},
                                           {"TiB", kKi* kKi* kKi* kKi},
                                           {"TB", 1e12},
                                           {"Ki", kKi}}};
constexpr std::array<Unit, 6> kTimeUnits{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};

Result<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units,
                                     const char* what, const char* example) {
  const auto wrong = [&](const char* why) {
    return Error(Code::kInvalidArgument, std::string("'").append(text) + "' is not a " + what +
                                             " (" + why + "); write for instance " + example);
  };
  std::size_t digits = 0;
  while (digits < text.size() &&
         ((text[digits] >= '0' && text[digits] <= '9') || text[digits] == '.'))
    ++digits;
  if (digits == 0 || text[0] == '.') return wrong("it must begin with a digit");
  const std::string number(text.substr(0, digits));
  if (number.find('.') != number.rfind('.')) return wrong("two decimal points");
  const std::string_view suffix = text.substr(digits);
  for (const Unit& unit : units) {
    if (unit.suffix != suffix) continue;
    const double value = std::strtod(number.c_str(), nullptr) * unit.factor;
    if (!(value < 9.2e18)) return wrong("too large");
    if (value != std::floor(value)) return wrong("not a whole number of the smallest unit");
    if (number.find('.') == std::string::npos && unit.factor == 1)
      return std::strtoull(number.c_str(), nullptr, 10);
    return static_cast<std::uint64_t>(value);
  }
  return wrong(suffix.empty() ? "the unit is missing" : "unknown unit");
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, kByteUnits, "size", "4096, 64KiB or 1MiB");
}

Result<std::uint64_t> parse_duration_ns(std::string_view text) {
  return parse_quantity(text, kTimeUnits, "duration", "200ms, 1.5s or 2m");
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t power = 0;
  while (power + 1 < kNames.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return std::to_string(bytes) + kNames[power];
}

std::string format_duration_ns(std::uint64_t ns) {
  constexpr std::array<Unit, 4> kSteps{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
  for (const Unit& step : kSteps) {
    if (static_cast<double>(ns) < step.factor && step.factor > 1) continue;
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.3g%.*s", static_cast<double>(ns) / step.factor,
                  static_cast<int>(step.suffix.size()), step.suffix.data());
    return buffer.data();
  }
  return "0ns";
}

}  // namespace sabot
