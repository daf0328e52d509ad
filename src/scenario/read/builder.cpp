// The scenario, its faults and its expectations.
#include "scenario/read/builder.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "scenario/read/field.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario::read {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::uint64_t kRanksMax = 1'000'000;

template <std::size_t N>
std::array<std::string_view, N> keys_of(std::span<const KeyRow> rows) {
  std::array<std::string_view, N> keys;
  for (std::size_t i = 0; i < N; ++i) keys[i] = rows[i].key;
  return keys;
}

bool is_fault_name(std::string_view name) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kNameMax && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_good);
}

class ScenarioBuilder {
 public:
  ScenarioBuilder(const Value& root, const Prefixes& prefixes, Diagnostics& diagnostics)
      : root_(root), prefixes_(prefixes), diagnostics_(diagnostics) {}

  Scenario build() {
    refuse_unknown_keys(root_, "", keys_of<6>(scenario_rows()), diagnostics_);
    check_version();
    if (const Member* name = root_.find("name"))
      scenario_.name = read_text(field(*name, scenario_rows())).value_or("");
    if (const Member* seed = root_.find("seed"))
      scenario_.seed = read_whole(field(*seed, scenario_rows()), 0).value_or(0);
    if (const Member* ranks = root_.find("ranks")) build_ranks(*ranks);
    if (const Member* faults = root_.find("fault")) {
      build_faults(faults->value);
    } else {
      diagnostics_.add({}, "fault",
                       "missing; a scenario has at least one [[fault]] with 'when' and 'do'");
    }
    name_the_nameless();
    if (const Member* expect = root_.find("expect"))
      scenario_.expect = build_expectation(expect->value, scenario_, diagnostics_);
    scenario_.warnings = diagnostics_.warnings();
    return std::move(scenario_);
  }

 private:
  Field field(const Member& member, std::span<const KeyRow> rows, std::string_view prefix = "") {
    return {member.value, std::string(prefix) + member.key, expected_of(rows, member.key),
            diagnostics_};
  }

  void check_version() {
    const Member* version = root_.find("sabot");
    if (version == nullptr) {
      diagnostics_.add({}, "sabot", "missing; a scenario begins with 'sabot = 1'");
    } else if (!version->value.is(Value::Kind::kWhole) || version->value.whole != kVersion) {
      field(*version, scenario_rows()).refuse_type();
    }
  }

  void build_ranks(const Member& member) {
    scenario_.ranks = read_whole(field(member, scenario_rows()), 1).value_or(0);
    if (scenario_.ranks > kRanksMax)
      field(member, scenario_rows()).refuse("more than " + std::to_string(kRanksMax) + " ranks");
  }

  void build_faults(const Value& list) {
    const bool is_list = list.is(Value::Kind::kList);
    if (!is_list || list.items.empty()) {
      diagnostics_.add(list.place, "fault",
                       is_list ? "an empty list; a scenario has at least one [[fault]]"
                               : "expected " + std::string(expected_of(scenario_rows(), "fault")) +
                                     "; found " + describe(list));
      return;
    }
    if (list.items.size() > kFaultsMax) {
      diagnostics_.add(list.items[kFaultsMax].place, "fault",
                       "more than " + std::to_string(kFaultsMax) + " faults");
      return;
    }
    for (const Value& item : list.items) build_fault(item);
  }

  void build_fault(const Value& table) {
    if (!table.is(Value::Kind::kTable)) {
      diagnostics_.add(table.place, "fault",
                       "expected a table under [[fault]]; found " + describe(table));
      return;
    }
    // Consistency is judged only for a fault without mistakes: a missing condition would mislead
    // it.
    const std::size_t before = diagnostics_.count();
    refuse_misplaced_keys(table);
    Fault fault;
    if (const Member* name = table.find("name")) fault.name = build_name(*name);
    if (const Member* budget = table.find("budget")) fault.budget = build_budget(*budget);
    if (const Member* armed = table.find("armed"))
      fault.is_armed = read_boolean(field(*armed, fault_rows())).value_or(true);
    const Value* when = required_table(table, "when");
    const Value* action = required_table(table, "do");
    if (when != nullptr) fault.when = build_trigger(*when, prefixes_, diagnostics_);
    if (action != nullptr) fault.action = build_action(*action, prefixes_, diagnostics_);
    if (diagnostics_.count() == before)
      check_consistency({fault, *when, *action}, scenario_.ranks, prefixes_, diagnostics_);
    scenario_.faults.push_back(std::move(fault));
  }

  // A condition or an action written beside 'when' and 'do' is a slip of indentation, not a typo.
  void refuse_misplaced_keys(const Value& table) {
    const auto keys = keys_of<5>(fault_rows());
    const auto conditions = keys_of<kConditionCount>(trigger_rows());
    for (const Member& member : table.members) {
      if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
      std::string problem = "unknown key" + suggestion(member.key, keys);
      if (std::find(conditions.begin(), conditions.end(), member.key) != conditions.end())
        problem = "is a condition; write it into 'when'";
      if (find_action(member.key) != nullptr) problem = "is an action; write it into 'do'";
      diagnostics_.add(member.place, member.key, problem);
    }
  }

  const Value* required_table(const Value& fault, std::string_view key) {
    const Member* member = fault.find(key);
    const KeyRow& row = *std::find_if(fault_rows().begin(), fault_rows().end(),
                                      [key](const KeyRow& each) { return each.key == key; });
    if (member == nullptr) {
      diagnostics_.add(fault.place, key,
                       "missing in this fault; for instance: " + std::string(row.example));
      return nullptr;
    }
    if (member->value.is(Value::Kind::kTable)) return &member->value;
    field(*member, fault_rows()).refuse_type();
    return nullptr;
  }

  std::string build_name(const Member& member) {
    const Field named = field(member, fault_rows());
    const std::optional<std::string> name = read_text(named);
    if (!name) return "";
    if (!is_fault_name(*name)) {
      named.refuse("expected " + std::string(named.expected) + ", at most " +
                   std::to_string(kNameMax) + ", not beginning with '.'; found " +
                   describe(member.value));
      return "";
    }
    for (const Fault& other : scenario_.faults)
      if (other.name == *name)
        named.refuse("another fault is called " + quoted(*name) + " already");
    return *name;
  }

  std::uint64_t build_budget(const Member& member) {
    if (member.value.is(Value::Kind::kWhole) && member.value.whole == 0) {
      field(member, fault_rows())
          .refuse("a fault with budget 0 never fires; remove the fault, or use a switch");
      return 0;
    }
    return read_whole(field(member, fault_rows()), 1).value_or(0);
  }

  void name_the_nameless() {
    const auto is_taken = [this](const std::string& name) {
      return std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                         [&name](const Fault& fault) { return fault.name == name; });
    };
    for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
      std::string name = std::string(prefixes_.fault) + std::to_string(i + 1);
      while (scenario_.faults[i].name.empty() && is_taken(name)) name += "b";
      if (scenario_.faults[i].name.empty()) scenario_.faults[i].name = name;
    }
  }

  const Value& root_;
  const Prefixes& prefixes_;
  Diagnostics& diagnostics_;
  Scenario scenario_;
};

}  // namespace

Scenario build_scenario(const Value& root, const Prefixes& prefixes, Diagnostics& diagnostics) {
  return ScenarioBuilder(root, prefixes, diagnostics).build();
}

}  // namespace sabot::scenario::read
