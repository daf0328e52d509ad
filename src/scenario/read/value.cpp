// How a value is named in an error message.
#include "scenario/read/value.hpp"

#include "scenario/read/diagnostics.hpp"

namespace sabot::scenario::read {

const Member* Value::find(std::string_view key) const {
  for (const Member& member : members)
    if (member.key == key) return &member;
  return nullptr;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNothing: return "nothing";
    case Value::Kind::kWhole: return "the number " + std::to_string(value.whole);
    case Value::Kind::kNumber: return "a decimal number";
    case Value::Kind::kBoolean: return value.boolean ? "true" : "false";
    case Value::Kind::kText: return "the text " + quoted(value.text);
    case Value::Kind::kList: return "a list";
    case Value::Kind::kTable: return "a table";
    case Value::Kind::kOther: return "a date or a time";
  }
  return "";
}

}  // namespace sabot::scenario::read
