// Splitting SOURCE:REGEX, and regcomp(3) with an owner.
#include "drill/plan/pattern.hpp"

#include <array>

namespace sabot::drill {
namespace {

constexpr std::size_t kPartsMax = 10;

}  // namespace

Result<Pattern> parse_pattern(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size())
    return Error(Code::kInvalidArgument,
                 "expected SOURCE:REGEX, where SOURCE is stdout or a file, such as "
                 "\"stdout:step ([0-9]+)\"");
  Pattern pattern{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
  SABOT_TRY(Matcher::compile(pattern.regex));
  return pattern;
}

Result<Matcher> Matcher::compile(const std::string& regex) {
  auto compiled = std::make_unique<regex_t>();
  const int reason = ::regcomp(compiled.get(), regex.c_str(), REG_EXTENDED);
  if (reason != 0) {
    std::array<char, 128> text{};
    ::regerror(reason, compiled.get(), text.data(), text.size());
    return Error(Code::kInvalidArgument, "'" + regex + "' is no regular expression: " +
                                             text.data() + " (the syntax is that of grep -E)");
  }
  return Matcher(std::unique_ptr<regex_t, Free>(compiled.release()));
}

std::optional<std::vector<std::string>> Matcher::match(const std::string& line) const {
  std::array<regmatch_t, kPartsMax> parts{};
  if (::regexec(regex_.get(), line.c_str(), parts.size(), parts.data(), 0) != 0)
    return std::nullopt;
  const auto text_of = [&line](const regmatch_t& part) {
    if (part.rm_so < 0) return std::string();
    return line.substr(static_cast<std::size_t>(part.rm_so),
                       static_cast<std::size_t>(part.rm_eo - part.rm_so));
  };
  std::vector<std::string> out;
  for (std::size_t i = 1; i <= regex_->re_nsub && i < kPartsMax; ++i)
    out.push_back(text_of(parts[i]));
  if (out.empty()) out.push_back(text_of(parts[0]));
  return out;
}

}  // namespace sabot::drill
