// Lines that a job printed, matched by a POSIX extended regular expression.
//
// regcomp(3) and not std::regex: it matches long lines without recursing, and rejects at once what
// it cannot read.
#pragma once

#include <regex.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "drill/plan/plan.hpp"

namespace sabot::drill {

// "stdout:step ([0-9]+)". The error says what is wrong, without naming the key.
Result<Pattern> parse_pattern(std::string_view text);

class Matcher {
 public:
  static Result<Matcher> compile(const std::string& regex);
  // The parenthesised parts of the first match in the line, or the whole match if there are none.
  std::optional<std::vector<std::string>> match(const std::string& line) const;

 private:
  struct Free {
    void operator()(regex_t* regex) const {
      ::regfree(regex);
      delete regex;
    }
  };
  explicit Matcher(std::unique_ptr<regex_t, Free> regex) : regex_(std::move(regex)) {}

  std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace sabot::drill
