// JSON text, appended piece by piece; small enough to live inside somebody else's process.
//
// The writer keeps one bit (is a comma due?) and trusts its caller to close what was opened. Text
// is escaped so that the output is valid JSON whatever the bytes: control characters as \u00XX,
// bytes that are no UTF-8 as U+FFFD. Numbers are whole; nothing of ours needs others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace sabot::run {

// Escapes text without the quotes around it.
void append_json_escaped(std::string& out, std::string_view text);

// The length of the UTF-8 sequence that text begins with, 0 if it is malformed.
std::size_t utf8_length(std::string_view text);

class JsonWriter {
 public:
  enum class Style : std::uint8_t { kLine, kIndented };
  explicit JsonWriter(Style style = Style::kLine) : indented_(style == Style::kIndented) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }

  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void break_line();

  std::string out_;
  bool indented_;
  bool comma_due_ = false;
  bool after_key_ = false;
  std::size_t depth_ = 0;
};

}  // namespace sabot::run
