// A tree of values with places: what both readers produce and the builder checks.
//
// TOML and the one-line form differ only in how they are written; behind this type there is one
// grammar. A place is a line for files and an offset for lines; the source knows which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sabot::scenario::read {

struct Place {
  std::size_t line = 0;    // 1-based, in a file
  std::size_t offset = 0;  // bytes from the beginning, in a one-line form
};

struct Member;

struct Value {
  // kNothing: "key" or "word()" without a value, possible only in the one-line form. kOther: a date
  // or a time, which no key takes.
  enum class Kind : std::uint8_t {
    kNothing,
    kWhole,
    kNumber,
    kBoolean,
    kText,
    kList,
    kTable,
    kOther
  };
  Kind kind = Kind::kNothing;
  Place place;
  std::int64_t whole = 0;
  double number = 0;
  bool boolean = false;
  std::string text;
  std::vector<Value> items;
  std::vector<Member> members;

  bool is(Kind wanted) const { return kind == wanted; }
  // Null if absent. Precondition: nothing; a value that is no table has no members.
  const Member* find(std::string_view key) const;
};

struct Member {
  std::string key;
  Place place;  // of the key
  Value value;
};

// "a table", "the text 'abc'", "the number 7": completes "found …".
std::string describe(const Value& value);

}  // namespace sabot::scenario::read
