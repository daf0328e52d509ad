// The one-line form, by recursive descent over characters.
//
// Syntax stops at the first error, because after a missing bracket every further message would be a
// guess; keys and values are checked by the builder, which reports all it finds.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.hpp"
#include "scenario/read/readers.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::array<std::string_view, 6> kOperators{"!=", ">=", "<=", ">", "<", "="};
constexpr std::size_t kListDepthMax = 4;
constexpr std::string_view kCallExpected =
    "expected a call, as in AllReduce[rank=1,nth=3]=error(SystemError)";

bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Value table_at(std::size_t offset) {
  Value value;
  value.kind = Value::Kind::kTable;
  value.place.offset = offset;
  return value;
}

Value text_at(std::size_t offset, std::string text) {
  Value value;
  value.kind = Value::Kind::kText;
  value.place.offset = offset;
  value.text = std::move(text);
  return value;
}

// A bare word is a number or true or false if it reads as one; quotes make it a text.
Value bare_value(std::size_t offset, std::string_view word) {
  Value value = text_at(offset, std::string(word));
  const char* const end = word.data() + word.size();
  if (word == "true" || word == "false") {
    value.kind = Value::Kind::kBoolean;
    value.boolean = word == "true";
    return value;
  }
  const auto whole = std::from_chars(word.data(), end, value.whole);
  if (whole.ec == std::errc() && whole.ptr == end) {
    value.kind = Value::Kind::kWhole;
    return value;
  }
  const bool is_numeric = word.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  const auto number = std::from_chars(word.data(), end, value.number);
  if (is_numeric && number.ec == std::errc() && number.ptr == end)
    value.kind = Value::Kind::kNumber;
  return value;
}

class LineReader {
 public:
  LineReader(std::string_view text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  std::optional<Value> read() {
    Value root = table_at(0);
    add(root, "sabot", 0, bare_value(0, "1"));
    Value faults = table_at(0);
    faults.kind = Value::Kind::kList;
    do {
      skip_space();
      if (!read_item(root, faults)) return std::nullopt;
    } while (take(';'));
    if (!at_end()) {
      fail("expected ';' or the end");
      return std::nullopt;
    }
    if (faults.items.empty()) {
      fail(std::string(kCallExpected));
      return std::nullopt;
    }
    add(root, "fault", 0, std::move(faults));
    return root;
  }

 private:
  bool read_item(Value& root, Value& faults) {
    if (at_end() && !faults.items.empty()) return true;  // a trailing ';'
    const std::size_t begin = position_;
    const std::size_t end = std::min(text_.find_first_of("[=;", begin), text_.size());
    const std::string_view head = trim(text_.substr(begin, end - begin));
    if (head.empty()) return fail(std::string(kCallExpected));
    position_ = end;
    if (head == "seed" && take('=')) {
      std::optional<Value> seed = read_value(0);
      if (!seed) return false;
      if (root.find("seed") != nullptr) return fail_at(begin, "seed is given twice");
      add(root, "seed", begin, std::move(*seed));
      skip_space();
      return true;
    }
    Value fault = table_at(begin);
    const std::size_t colon = head.find(':');
    std::string_view call = head;
    if (colon != std::string_view::npos) {
      add(fault, "name", begin, text_at(begin, std::string(trim(head.substr(0, colon)))));
      call = trim(head.substr(colon + 1));
    }
    const auto call_offset = static_cast<std::size_t>(call.data() - text_.data());
    Value when = table_at(call_offset);
    add(when, "call", call_offset, text_at(call_offset, std::string(call)));
    if (take('[') && !read_conditions(fault, when)) return false;
    skip_space();
    if (!take('=')) return fail("expected '=' and an action, as in =error(SystemError)");
    add(fault, "when", call_offset, std::move(when));
    if (!read_action(fault)) return false;
    faults.items.push_back(std::move(fault));
    return true;
  }

  // After '['.
  bool read_conditions(Value& fault, Value& when) {
    skip_space();
    if (take(']')) return true;
    do {
      if (!read_condition(fault, when)) return false;
    } while (take(','));
    return take(']') || fail("expected ',' or ']'");
  }

  bool read_condition(Value& fault, Value& when) {
    skip_space();
    const std::size_t begin = position_;
    const std::string_view key = read_key();
    if (key.empty()) return fail("expected a condition, as in rank=1");
    skip_space();
    std::string_view op;
    for (const std::string_view candidate : kOperators) {
      if (text_.substr(position_, candidate.size()) != candidate) continue;
      op = candidate;
      break;
    }
    position_ += op.size();
    Value value = table_at(position_);
    value.kind = Value::Kind::kNothing;
    if (!op.empty()) {
      std::optional<Value> read = read_value(0);
      if (!read) return false;
      value = std::move(*read);
    }
    if (!op.empty() && op != "=") value = text_at(value.place.offset, std::string(op) + value.text);
    Value& owner = key == "budget" || key == "armed" ? fault : when;
    const bool is_compared = !op.empty() && op != "=";
    if (!add_condition(owner, key, begin, std::move(value), is_compared))
      return fail_at(begin, quoted(key) + " is given twice; write a list, as in " +
                                std::string(key) + "=[1,2]");
    skip_space();
    return true;
  }

  // A comparison narrows the same key down; anything else may be given once.
  bool add_condition(Value& owner, std::string_view key, std::size_t offset, Value value,
                     bool is_compared) {
    for (Member& member : owner.members) {
      if (member.key != key) continue;
      if (!is_compared || member.value.text.empty()) return false;
      member.value.kind = Value::Kind::kText;
      member.value.text += "&" + value.text;
      return true;
    }
    add(owner, std::string(key), offset, std::move(value));
    return true;
  }

  bool read_action(Value& fault) {
    skip_space();
    const std::size_t begin = position_;
    const std::string_view word = read_key();
    if (word.empty()) return fail("expected an action, as in error(SystemError)");
    Value action = table_at(begin);
    Value nothing = table_at(position_);
    nothing.kind = Value::Kind::kNothing;
    add(action, std::string(word), begin, std::move(nothing));
    skip_space();
    if (take('(') && !read_arguments(action)) return false;
    skip_space();
    add(fault, "do", begin, std::move(action));
    return at_end() || text_[position_] == ';' || fail("expected ';' or the end");
  }

  // After '('.
  bool read_arguments(Value& action) {
    skip_space();
    if (take(')')) return true;
    bool is_first = true;
    do {
      skip_space();
      const std::size_t begin = position_;
      const std::string_view key = read_key();
      skip_space();
      const bool is_named = !key.empty() && take('=');
      if (!is_named && !is_first)
        return fail_at(begin, "expected a name and a value, as in at=after");
      if (!is_named) position_ = begin;
      std::optional<Value> value = read_value(0);
      if (!value) return false;
      if (!is_named) {
        action.members[0].value = std::move(*value);
      } else if (action.find(key) != nullptr) {
        return fail_at(begin, quoted(key) + " is given twice");
      } else {
        add(action, std::string(key), begin, std::move(*value));
      }
      is_first = false;
      skip_space();
    } while (take(','));
    return take(')') || fail("expected ',' or ')'");
  }

  std::optional<Value> read_value(std::size_t depth) {
    skip_space();
    const std::size_t begin = position_;
    if (!at_end() && (text_[begin] == '"' || text_[begin] == '\'')) return read_quoted();
    if (take('[')) return read_list(begin, depth);
    const std::size_t end = std::min(text_.find_first_of(",;()[]\"'", begin), text_.size());
    const std::string_view word = trim(text_.substr(begin, end - begin));
    if (word.empty()) {
      fail("expected a value");
      return std::nullopt;
    }
    position_ = begin + word.size();
    return bare_value(begin, word);
  }

  std::optional<Value> read_quoted() {
    const std::size_t begin = position_;
    const char quote = text_[position_++];
    std::string out;
    while (!at_end() && text_[position_] != quote) {
      // Within double quotes a backslash takes the next character as it is.
      if (quote == '"' && text_[position_] == '\\' && position_ + 1 < text_.size()) ++position_;
      out += text_[position_++];
    }
    if (!take(quote)) {
      fail_at(begin, "this quote is not closed");
      return std::nullopt;
    }
    return text_at(begin, std::move(out));
  }

  // After '['.
  std::optional<Value> read_list(std::size_t begin, std::size_t depth) {
    Value list = table_at(begin);
    list.kind = Value::Kind::kList;
    if (depth >= kListDepthMax) {
      fail_at(begin, "lists are nested too deeply");
      return std::nullopt;
    }
    skip_space();
    if (take(']')) return list;
    do {
      std::optional<Value> item = read_value(depth + 1);
      if (!item) return std::nullopt;
      list.items.push_back(std::move(*item));
      skip_space();
    } while (take(','));
    if (take(']')) return list;
    fail("expected ',' or ']'");
    return std::nullopt;
  }

  std::string_view read_key() {
    const std::size_t begin = position_;
    while (!at_end() && is_key_character(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  static void add(Value& table, std::string key, std::size_t offset, Value value) {
    Member member;
    member.key = std::move(key);
    member.place.offset = offset;
    member.value = std::move(value);
    table.members.push_back(std::move(member));
  }

  bool at_end() const { return position_ >= text_.size(); }
  bool take(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void skip_space() {
    position_ = std::min(text_.find_first_not_of(kSpace, position_), text_.size());
  }
  bool fail(const std::string& problem) { return fail_at(position_, problem); }
  bool fail_at(std::size_t offset, const std::string& problem) {
    diagnostics_.add({0, offset}, "", problem);
    return false;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<Value> read_line(std::string_view text, Diagnostics& diagnostics) {
  return LineReader(text, diagnostics).read();
}

}  // namespace sabot::scenario::read
