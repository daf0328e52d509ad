// Collects what is wrong with a text, each with its place, so that all mistakes are shown at once.
//
// Rendering depends on the form. In a file:
//   FILE:LINE: key 'when.rnak': unknown key; did you mean 'rank'?
// In a line:
//   ORIGIN: key 'rnak': unknown key; did you mean 'rank'?
//     AllReduce[rnak=1]=error(SystemError)
//               ^
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "scenario/read/value.hpp"

namespace sabot::scenario::read {

inline constexpr std::size_t kDiagnosticsMax = 20;

// The text in single quotes, cut to a length that fits a message, control characters replaced.
std::string quoted(std::string_view text);

struct Source {
  enum class Form : unsigned char { kFile, kLine };
  Form form = Form::kFile;
  std::string_view name;  // the file, or where the line came from: "--fault", "SABOT_FAULT"
  std::string_view text;  // the line itself; unused for files
};

class Diagnostics {
 public:
  explicit Diagnostics(const Source& source) : source_(source) {}

  // key: the path of the key concerned, "" if the text as a whole is.
  void add(Place place, std::string_view key, const std::string& problem);
  void warn(Place place, std::string_view key, const std::string& problem);

  bool empty() const { return count_ == 0; }
  // How many problems there are so far, those beyond kDiagnosticsMax too.
  std::size_t count() const { return count_; }
  // Precondition: !empty(). All problems, one a line, in order of their places.
  Error error() const;
  std::vector<std::string> warnings() const { return warnings_; }

 private:
  struct Problem {
    Place place;
    std::string text;
  };
  std::string render(Place place, std::string_view key, const std::string& problem) const;

  Source source_;
  std::size_t count_ = 0;
  std::vector<Problem> problems_;
  std::vector<std::string> warnings_;
};

}  // namespace sabot::scenario::read
