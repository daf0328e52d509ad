// Prints the grammar's rows as tables; what is written here is only what no row can say.
#include "scenario/reference.hpp"

#include <initializer_list>
#include <span>
#include <string_view>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "scenario/names.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario {
namespace {

constexpr std::string_view kHead = R"(# Scenarios

Generated from the tables of `src/scenario/read/grammar.cpp`; do not edit.

A scenario is a TOML file. An unknown key, a wrong type or a combination that can never hold is an
error that names file, line, key and the nearest valid key, before the job starts; `sabot scenario
check FILE` says what would be said then.

)";

constexpr std::string_view kAfterConditions = R"(
All conditions of a trigger must hold. `nth`, `range` and `every` are 1-based and count the calls
that meet all other conditions, per fault, rank and attempt, inside groups too, from where the fault
was armed; `probability` is drawn last. Numbers are written `3`, `[1, 2]`, `"0-3"`, `"3.."`,
`">=4"`, `"!=0"`, or joined:
`"0,4-7"` is any of them, `">=4KiB & <1MiB"` is all of them. Both ends of a range belong to it.
Sizes take `KiB`, `MiB`, `GiB`, `KB` and so on; durations `ns`, `us`, `ms`, `s`, `m`, `h`.

)";

constexpr std::string_view kLine = R"(
## One line

`--fault` and `SABOT_FAULT` take the same faults in one line, several separated by `;`:

```
[NAME:] CALL[CONDITION,CONDITION…]=ACTION(VALUE,PARAMETER=VALUE…)

AllReduce[rank=1,nth=3]=error(SystemError)
slow: any collective[rank!=0,bytes>=1MiB,budget=2]=error(RemoteError,at=after)
seed=42; AllReduce|AllGather[probability=0.01]=error(InternalError)
```

Conditions have the keys of `when`; comparisons are written as such (`bytes>=1MiB`), and one key may
be compared twice. `budget` and `armed` stand among the conditions. Values with a comma, a
semicolon, a bracket or a parenthesis are quoted.
)";

// A '|' inside a cell would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) { return "`" + cell(text) + "`"; }

std::string row(std::initializer_list<std::string> cells) {
  std::string out = "|";
  for (const std::string& each : cells) out += " " + each + " |";
  return out + "\n";
}

std::string keys_table(std::span<const read::KeyRow> rows) {
  std::string out = "| key | value | meaning | example |\n|---|---|---|---|\n";
  for (const read::KeyRow& each : rows)
    out += row({code(each.key), cell(each.expected), cell(each.meaning), code(each.example)});
  return out;
}

std::string section(std::string_view title, std::span<const read::KeyRow> rows) {
  return "## " + std::string(title) + "\n\n" + keys_table(rows);
}

std::string groups_section() {
  std::string out =
      "### Calls\n\nA function of the [API reference](api.md), with or without `nccl`, or a "
      "group. Of a group, a fault means those functions on which its action makes sense: "
      "`any` with a `mismatch` of the root means those that have one. A fault whose action makes "
      "sense on none is refused.\n\n| group | functions |\n|---|---|\n";
  for (const CallGroupRow& each : call_group_rows())
    out += row({code(each.word), cell(each.meaning)});
  return out + "\n";
}

std::string action_parameters(const read::ActionRow& action) {
  std::string out;
  for (const read::ParameterRow& each : action.parameters) {
    std::string value =
        each.words.empty() ? std::string(read::expected_text(each.shape)) : join(each.words, ", ");
    if (each.shape == read::Shape::kWordOrWhole) value += ", or an exit code from 0 to 255";
    if (!each.default_word.empty()) value += "; default " + std::string(each.default_word);
    out += row({code(each.key), cell(value), cell(each.meaning),
                code(std::string(each.key) + " = " + std::string(each.example))});
  }
  return out;
}

std::string actions_section() {
  std::string out = "## Actions: `do`\n\nA fault has exactly one.\n";
  for (const read::ActionRow& each : read::action_rows()) {
    out += "\n### " + code(each.word) + "\n\n" + std::string(each.meaning) + ".";
    out += "\n\n| key | value | meaning | example |\n|---|---|---|---|\n" + action_parameters(each);
  }
  out += "\nResult codes: " + join(abi::result_names(), ", ") +
         ", with or without `nccl`. `Success` is refused.\n";
  return out;
}

std::string outcomes_section() {
  std::string out = "\n| outcome | meaning |\n|---|---|\n";
  for (const read::OutcomeRow& each : read::outcome_rows())
    out += row({code(each.word), cell(each.meaning)});
  return out;
}

}  // namespace

std::string reference_markdown() {
  std::string out(kHead);
  out += section("The file", read::scenario_rows()) + "\n";
  out += section("A fault: `[[fault]]`", read::fault_rows()) + "\n";
  out += section("Conditions: `when`", read::trigger_rows());
  out += kAfterConditions;
  out += groups_section() + actions_section() + "\n";
  out += section("Expectations: `[expect]`", read::expect_rows()) + outcomes_section();
  out += kLine;
  return out;
}

}  // namespace sabot::scenario
