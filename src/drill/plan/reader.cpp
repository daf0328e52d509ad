// Typed reading by key, and the way into the scenario reader.
#include "drill/plan/reader.hpp"

#include <algorithm>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "scenario/parse.hpp"
#include "scenario/read/builder.hpp"

namespace sabot::drill {

using scenario::read::Diagnostics;
using scenario::read::Field;
using scenario::read::Member;
using scenario::read::Value;

void TableReader::refuse_unknown() const {
  std::vector<std::string_view> known;
  for (const KeyText& row : keys_) known.push_back(row.key);
  scenario::read::refuse_unknown_keys(table_, prefix_, known, diagnostics_);
}

void TableReader::missing(std::string_view key) const {
  diagnostics_.add(table_.place, prefix_ + std::string(key),
                   "missing; expected " + std::string(expected(key)));
}

void TableReader::refuse(std::string_view key, const std::string& problem) const {
  field(key)->refuse(problem);
}

void TableReader::refuse_type(std::string_view key) const { field(key)->refuse_type(); }

std::string_view TableReader::expected(std::string_view key) const {
  const auto row = std::find_if(keys_.begin(), keys_.end(),
                                [key](const KeyText& one) { return one.key == key; });
  return row == keys_.end() ? "another value" : row->expected;
}

std::optional<Field> TableReader::field(std::string_view key) const {
  const Member* member = table_.find(key);
  if (member == nullptr) return std::nullopt;
  return Field{member->value, prefix_ + member->key, expected(key), diagnostics_};
}

std::optional<std::string> TableReader::text(std::string_view key) const {
  const std::optional<Field> found = field(key);
  return found ? scenario::read::read_text(*found) : std::nullopt;
}

std::optional<bool> TableReader::boolean(std::string_view key) const {
  const std::optional<Field> found = field(key);
  return found ? scenario::read::read_boolean(*found) : std::nullopt;
}

std::optional<std::uint64_t> TableReader::whole(std::string_view key, std::uint64_t low,
                                                std::uint64_t high) const {
  const std::optional<Field> found = field(key);
  if (!found) return std::nullopt;
  const std::optional<std::uint64_t> number = scenario::read::read_whole(*found, low);
  if (!number || *number <= high) return number;
  found->refuse_type();
  return std::nullopt;
}

std::optional<std::uint64_t> TableReader::duration_ns(std::string_view key) const {
  const std::optional<Field> found = field(key);
  if (!found) return std::nullopt;
  const std::optional<std::uint64_t> duration = scenario::read::read_duration_ns(*found);
  if (!duration || *duration > 0) return duration;
  found->refuse("nothing can be done in no time");
  return std::nullopt;
}

std::optional<scenario::NumberSet> TableReader::numbers(std::string_view key) const {
  const std::optional<Field> found = field(key);
  if (!found) return std::nullopt;
  return scenario::read::read_numbers(*found, scenario::NumberStyle::kPlain);
}

std::optional<std::vector<std::string>> TableReader::words(std::string_view key) const {
  const std::optional<Field> found = field(key);
  if (!found) return std::nullopt;
  const std::vector<Value>& items = found->value.items;
  const auto is_word = [](const Value& item) { return item.is(Value::Kind::kText); };
  if (!found->value.is(Value::Kind::kList) || items.empty() || items.size() > kWordsMax ||
      !std::all_of(items.begin(), items.end(), is_word) || items[0].text.empty()) {
    found->refuse_type();
    return std::nullopt;
  }
  std::vector<std::string> words;
  for (const Value& item : items) {
    if (item.text.size() > kWordBytesMax) {
      found->refuse("a word longer than " + std::to_string(kWordBytesMax) + " characters");
      return std::nullopt;
    }
    words.push_back(item.text);
  }
  return words;
}

std::optional<std::vector<std::string>> TableReader::texts(std::string_view key) const {
  const std::optional<Field> found = field(key);
  if (!found) return std::nullopt;
  if (found->value.is(Value::Kind::kText) && !found->value.text.empty())
    return std::vector<std::string>{found->value.text};
  return words(key);
}

namespace {

constexpr std::string_view kFaultName = "fault";

// What the scenario reader needs beside the tables of a plan.
Member version_member() {
  Member version;
  version.key = "sabot";
  version.value.kind = Value::Kind::kWhole;
  version.value.whole = 1;
  return version;
}

bool is_of_plan(const Member& member) { return member.key == "file" || member.key == "deadline"; }

constexpr KeyText kEntryKeys[] = {
    {"file", "a text: the path of a scenario, relative to the plan"},
    {"name", "a text"},
    {"deadline", "a duration such as \"120s\""},
};

}  // namespace

bool build_scenario_entry(const Value& value, Listed& listed, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.count();
  const TableReader table(value, "scenario.", kEntryKeys, diagnostics);
  listed.line = value.place.line;
  listed.deadline_ns = table.duration_ns("deadline");
  if (table.find("file") != nullptr) {
    listed.file = table.text("file").value_or("");
    listed.name = table.text("name").value_or("");
    if (table.find("fault") != nullptr || table.find("expect") != nullptr)
      table.refuse("file",
                   "names a scenario, and faults or expectations stand beside it; a "
                   "scenario is either a file or written here");
    else
      table.refuse_unknown();
    return diagnostics.count() == before;
  }
  Value root = value;
  std::erase_if(root.members, is_of_plan);
  root.members.push_back(version_member());
  listed.scenario = scenario::read::build_scenario(root, {"when.", "do.", "fault-"}, diagnostics);
  return diagnostics.count() == before;
}

std::optional<scenario::Expectation> build_expectation(const Member& expect,
                                                       Diagnostics& diagnostics) {
  const auto text = [](std::string_view key, std::string_view content) {
    Member member;
    member.key = key;
    member.value.kind = Value::Kind::kText;
    member.value.text = content;
    return member;
  };
  const auto table = [](std::string_view key, std::vector<Member> members) {
    Member member;
    member.key = key;
    member.value.kind = Value::Kind::kTable;
    member.value.members = std::move(members);
    return member;
  };
  Member faults;
  faults.key = "fault";
  faults.value.kind = Value::Kind::kList;
  faults.value.items.push_back(
      table("", {text("name", kFaultName), table("when", {text("call", "any collective")}),
                 table("do", {text("error", "SystemError")})})
          .value);
  Value root;
  root.kind = Value::Kind::kTable;
  root.members = {version_member(), faults, expect};
  return scenario::read::build_scenario(root, {"when.", "do.", "fault-"}, diagnostics).expect;
}

std::string unknown_function_text(const std::string& name) {
  if (abi::find_function(name)) return "";
  const auto close = nearest(name, abi::function_names());
  return "NCCL has no function " + scenario::read::quoted(name) +
         (close ? "; did you mean '" + std::string(*close) + "'?" : "");
}

Status check_action_text(const std::string& action) {
  const std::string line = "AllReduce=" + action;
  Diagnostics of_line({scenario::read::Source::Form::kLine, "action", line});
  const std::optional<Value> root = scenario::read::read_line(line, of_line);
  // The caret below the line would point into a text that nobody wrote.
  const auto first_line = [&of_line] {
    const std::string text = of_line.error().message();
    return Error(Code::kInvalidArgument, text.substr(0, text.find('\n')));
  };
  if (!root) return first_line();
  const Member* faults = root->find("fault");
  const Member* action_table = faults == nullptr || faults->value.items.size() != 1
                                   ? nullptr
                                   : faults->value.items[0].find("do");
  if (action_table == nullptr)
    return Error(Code::kInvalidArgument,
                 scenario::read::quoted(action) + " is not one action, such as error(SystemError)");
  scenario::read::build_action(action_table->value, {"", "", ""}, of_line);
  if (!of_line.empty()) return first_line();
  return {};
}

}  // namespace sabot::drill
