// The JSON reader: recursive descent over a view, one function a production.
#include "run/read/json_value.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "run/json_writer.hpp"

namespace sabot::run {

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Result<JsonValue> document() {
    JsonValue value = SABOT_TRY(parse_value(0));
    skip_space();
    if (at_ != text_.size()) return wrong("text after the value");
    return value;
  }

 private:
  static constexpr int kDepthMax = 32;

  Error wrong(const char* what) const {
    return Error(Code::kInvalidArgument,
                 std::string("not JSON: ") + what + " at offset " + std::to_string(at_));
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<JsonValue> parse_value(int depth) {
    if (depth > kDepthMax) return wrong("nested too deeply");
    skip_space();
    if (at_ >= text_.size()) return wrong("the text ends where a value is expected");
    JsonValue value;
    switch (text_[at_]) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"':
        value.kind_ = JsonValue::Kind::kText;
        value.text_ = SABOT_TRY(parse_text());
        return value;
      default: return parse_plain();
    }
  }

  Result<JsonValue> parse_object(int depth) {
    JsonValue value;
    value.kind_ = JsonValue::Kind::kObject;
    ++at_;
    skip_space();
    if (take('}')) return value;
    for (;;) {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') return wrong("a member without a name");
      value.names_.push_back(SABOT_TRY(parse_text()));
      skip_space();
      if (!take(':')) return wrong("a colon is missing");
      value.items_.push_back(SABOT_TRY(parse_value(depth + 1)));
      skip_space();
      if (take('}')) return value;
      if (!take(',')) return wrong("a comma is missing");
    }
  }

  Result<JsonValue> parse_array(int depth) {
    JsonValue value;
    value.kind_ = JsonValue::Kind::kArray;
    ++at_;
    skip_space();
    if (take(']')) return value;
    for (;;) {
      value.items_.push_back(SABOT_TRY(parse_value(depth + 1)));
      skip_space();
      if (take(']')) return value;
      if (!take(',')) return wrong("a comma is missing");
    }
  }

  Result<JsonValue> parse_plain() {
    const std::size_t begin = at_;
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzE0123456789+-.";
    while (at_ < text_.size() && kPlain.find(text_[at_]) != kPlain.npos) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    JsonValue value;
    if (word == "null") return value;
    value.text_ = std::string(word);
    if (word == "true" || word == "false") {
      value.kind_ = JsonValue::Kind::kBool;
      return value;
    }
    value.kind_ = JsonValue::Kind::kNumber;
    at_ = begin;
    if (!is_number(word)) return wrong("an unknown word");
    at_ += word.size();
    return value;
  }

  static bool is_number(std::string_view word) {
    const auto digits = [&word] {
      std::size_t count = 0;
      while (count < word.size() && word[count] >= '0' && word[count] <= '9') ++count;
      const bool leading_zero = count > 1 && word[0] == '0';
      word.remove_prefix(count);
      return std::pair(count > 0, leading_zero);
    };
    if (word.starts_with('-')) word.remove_prefix(1);
    if (digits() != std::pair(true, false)) return false;
    if (word.starts_with('.')) {
      word.remove_prefix(1);
      if (!digits().first) return false;
    }
    if (word.starts_with('e') || word.starts_with('E')) {
      word.remove_prefix(1);
      if (word.starts_with('+') || word.starts_with('-')) word.remove_prefix(1);
      if (!digits().first) return false;
    }
    return word.empty();
  }

  Result<std::string> parse_text() {
    std::string out;
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) return wrong("a bare control character");
      if (c == '\\') {
        ++at_;
        if (!parse_escape(out)) return wrong("an unknown escape");
        continue;
      }
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) return wrong("bytes that are not UTF-8");
      out.append(text_.substr(at_, length));
      at_ += length;
    }
    return wrong("a string without an end");
  }

  bool parse_escape(std::string& out) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t index = kNames.find(c);
    if (index != kNames.npos) {
      out.push_back(kMeanings[index]);
      return true;
    }
    if (c != 'u') return false;
    std::optional<std::uint32_t> code = parse_hex4();
    if (!code) return false;
    const bool first_half = *code >= 0xD800 && *code < 0xDC00;
    if (first_half && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      const std::optional<std::uint32_t> second = parse_hex4();
      if (!second || *second < 0xDC00 || *second > 0xDFFF) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*second - 0xDC00);
    }
    append_utf8(out, *code >= 0xD800 && *code <= 0xDFFF ? 0xFFFD : *code);
    return true;
  }

  std::optional<std::uint32_t> parse_hex4() {
    if (text_.size() - at_ < 4) return std::nullopt;
    std::uint32_t code = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    if (error != std::errc{} || end != begin + 4) return std::nullopt;
    at_ += 4;
    return code;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    const auto tail = [&](int shift) { put(0x80U | ((code >> shift) & 0x3FU)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0U | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      put(0xE0U | (code >> 12));
      tail(6);
      tail(0);
    } else {
      put(0xF0U | (code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<JsonValue> JsonValue::parse(std::string_view text) { return JsonParser(text).document(); }

const JsonValue& JsonValue::operator[](std::string_view name) const {
  static const JsonValue kNone;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (names_[i] == name) return items_[i];
  return kNone;
}

std::int64_t JsonValue::integer(std::int64_t fallback) const {
  std::int64_t number = 0;
  const char* const end = text_.data() + text_.size();
  const auto [stop, error] = std::from_chars(text_.data(), end, number);
  return kind_ == Kind::kNumber && error == std::errc{} && stop == end ? number : fallback;
}

std::uint64_t JsonValue::natural(std::uint64_t fallback) const {
  std::uint64_t number = 0;
  const char* const end = text_.data() + text_.size();
  const auto [stop, error] = std::from_chars(text_.data(), end, number);
  return kind_ == Kind::kNumber && error == std::errc{} && stop == end ? number : fallback;
}

}  // namespace sabot::run
