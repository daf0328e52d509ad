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

std::string_view expected_of(std::span<const KeyRow> rows, std::string_view key) {
  return std::find_if(rows.begin(), rows.end(), [key](const KeyRow& row) { return row.key == key; })
      ->expected;
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
    if (const Member* expect = root_.find("expect")) build_expectation(expect->value);
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
    const Value* when = required_table(table, "when");
    const Value* action = required_table(table, "do");
    if (when != nullptr) fault.when = build_trigger(*when, prefixes_, diagnostics_);
    if (action != nullptr) fault.action = build_action(*action, prefixes_, diagnostics_);
    if (diagnostics_.count() == before)
      check_consistency(fault, scenario_.ranks, *when, prefixes_, diagnostics_);
    scenario_.faults.push_back(std::move(fault));
  }

  // A condition or an action written beside 'when' and 'do' is a slip of indentation, not a typo.
  void refuse_misplaced_keys(const Value& table) {
    const auto keys = keys_of<4>(fault_rows());
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

  void build_expectation(const Value& table) {
    if (!table.is(Value::Kind::kTable)) {
      diagnostics_.add(table.place, "expect", "expected a table; found " + describe(table));
      return;
    }
    refuse_unknown_keys(table, "expect.", keys_of<4>(expect_rows()), diagnostics_);
    Expectation expect;
    const auto duration = [&](std::string_view key) -> std::optional<std::uint64_t> {
      const Member* member = table.find(key);
      if (member == nullptr) return std::nullopt;
      return read_duration_ns(field(*member, expect_rows(), "expect."));
    };
    if (const Member* outcome = table.find("outcome")) expect.outcome = build_outcome(*outcome);
    expect.detected_within_ns = duration("detected_within");
    expect.finished_within_ns = duration("finished_within");
    if (expect.detected_within_ns && expect.finished_within_ns &&
        *expect.detected_within_ns > *expect.finished_within_ns) {
      diagnostics_.add(table.find("detected_within")->place, "expect.detected_within",
                       "is longer than finished_within: a job that has ended detects nothing");
    }
    if (const Member* fired = table.find("fired")) build_fired(*fired, expect);
    scenario_.expect = std::move(expect);
  }

  std::optional<Outcome> build_outcome(const Member& member) {
    for (const OutcomeRow& row : outcome_rows())
      if (member.value.is(Value::Kind::kText) && row.word == member.value.text) return row.outcome;
    field(member, expect_rows(), "expect.").refuse_type();
    return std::nullopt;
  }

  void build_fired(const Member& fired, Expectation& expect) {
    if (!fired.value.is(Value::Kind::kTable)) {
      field(fired, expect_rows(), "expect.").refuse_type();
      return;
    }
    if (fired.value.members.size() > kFaultsMax) {
      field(fired, expect_rows(), "expect.")
          .refuse("more than " + std::to_string(kFaultsMax) + " entries");
      return;
    }
    std::vector<std::string_view> names;
    for (const Fault& fault : scenario_.faults) names.push_back(fault.name);
    for (const Member& member : fired.value.members) {
      const Field count{member.value, "expect.fired." + member.key, "a whole number", diagnostics_};
      const auto fault =
          std::find_if(scenario_.faults.begin(), scenario_.faults.end(),
                       [&member](const Fault& each) { return each.name == member.key; });
      if (fault == scenario_.faults.end()) {
        diagnostics_.add(
            member.place, count.path,
            "no fault is called " + quoted(member.key) + suggestion(member.key, names));
        continue;
      }
      const std::optional<std::uint64_t> number = read_whole(count, 0);
      if (!number) continue;
      if (fault->budget != 0 && *number > fault->budget) {
        count.refuse("more than the budget of this fault, which is " +
                     std::to_string(fault->budget));
      }
      expect.fired.push_back({member.key, *number});
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
