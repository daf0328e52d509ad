// JSON as a tree, for those who read a run folder: the launcher and the reports.
//
// Strict (RFC 8259) and bounded in depth; a number keeps its text, since 64-bit nanoseconds do not
// fit a double. Lookups of absent members give a null value, so that a record of an older version
// reads as one with unset fields. Processes under test only write; nothing of this is linked into
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace sabot::run {

class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kText, kArray, kObject };

  // The whole text must be one value; the error names the offset.
  static Result<JsonValue> parse(std::string_view text);

  Kind kind() const { return kind_; }
  // The member of an object, else a null value.
  const JsonValue& operator[](std::string_view name) const;
  const std::vector<JsonValue>& items() const { return items_; }
  const std::vector<std::string>& names() const { return names_; }

  bool boolean() const { return kind_ == Kind::kBool && text_ == "true"; }
  // The text of a string, the digits of a number, "" for everything else.
  const std::string& text() const { return text_; }
  // Whole numbers that fit, else the fallback.
  std::int64_t integer(std::int64_t fallback = 0) const;
  std::uint64_t natural(std::uint64_t fallback = 0) const;

 private:
  friend class JsonParser;
  Kind kind_ = Kind::kNull;
  std::string text_;
  std::vector<std::string> names_;  // of the items of an object
  std::vector<JsonValue> items_;
};

}  // namespace sabot::run
