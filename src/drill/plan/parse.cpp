// The keys of a plan, one function a table. Values, places and messages are those of the scenario
// reader; inline scenarios and expectations are read by it as they stand.
#include "drill/plan/parse.hpp"

#include <algorithm>
#include <span>

#include "drill/plan/pattern.hpp"
#include "drill/plan/reader.hpp"
#include "run/text_file.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"

namespace sabot::drill {
namespace {

using scenario::read::Diagnostics;
using scenario::read::Member;
using scenario::read::Value;

constexpr KeyText kPlanKeys[] = {
    {"sabot", "the number 1, the version of the format"},
    {"name", "a text"},
    {"command", "a list of words: [\"torchrun\", \"train.py\"]"},
    {"engine", "auto, real or host"},
    {"deadline", "a duration such as \"120s\""},
    {"baseline", "true or false"},
    {"parallel", "a whole number from 1 to 64"},
    {"seed", "a whole number"},
    {"progress", "a text SOURCE:REGEX such as \"stdout:step ([0-9]+)\""},
    {"check", "a list of words, or a text SOURCE:REGEX such as \"stdout:weights ([0-9a-f]+)\""},
    {"expect", "a table such as { outcome = \"recovers\" }"},
    {"needs", "tables under [[needs]]"},
    {"scenario", "tables under [[scenario]]"},
    {"generate", "tables under [[generate]]"},
};
constexpr KeyText kNeedsKeys[] = {
    {"command", "a list of words: [\"python3\", \"-c\", \"import torch\"]"},
    {"otherwise", "a text: the reason for skipping the drill"},
};
constexpr KeyText kGenerateKeys[] = {
    {"calls", "\"baseline\", or a list of functions such as [\"AllReduce\"]"},
    {"actions", "a list of actions such as [\"error(SystemError)\", \"hang\"]"},
    {"ranks", "\"each\", or numbers such as [0, 3] or \"0..3\""},
    {"phases", "a list of init, first, steady, last, group, teardown"},
    {"budget", "a whole number from 1 to 100000"},
    {"expect", "a table such as { outcome = \"recovers\" }"},
};

class PlanBuilder {
 public:
  PlanBuilder(const Value& root, Diagnostics& diagnostics)
      : root_(root), diagnostics_(diagnostics), top_(root, "", kPlanKeys, diagnostics) {}

  Plan build() {
    top_.refuse_unknown();
    check_version();
    plan_.name = top_.text("name").value_or("");
    plan_.command = top_.words("command").value_or(std::vector<std::string>());
    build_engine();
    plan_.deadline_ns = top_.duration_ns("deadline").value_or(kDeadlineDefaultNs);
    plan_.has_baseline = top_.boolean("baseline").value_or(true);
    plan_.parallel = top_.whole("parallel", 1, kParallelMax).value_or(1);
    plan_.seed = top_.whole("seed", 0, kWholeMax).value_or(0);
    if (top_.find("progress") != nullptr) plan_.progress = pattern("progress");
    build_check();
    plan_.expect = expectation(top_);
    each("needs", [this](const Value& table) { build_need(table); });
    each("scenario", [this](const Value& table) { build_listed(table); });
    each("generate", [this](const Value& table) { build_generate(table); });
    check_whole();
    return std::move(plan_);
  }

 private:
  void check_version() {
    if (top_.find("sabot") == nullptr)
      diagnostics_.add({}, "sabot", "missing; a plan begins with 'sabot = 1'");
    else
      top_.whole("sabot", 1, 1);
  }

  void build_engine() {
    const std::optional<std::string> engine = top_.text("engine");
    if (!engine) return;
    plan_.engine = *engine;
    if (*engine != "auto" && *engine != "real" && *engine != "host") top_.refuse_type("engine");
  }

  std::optional<Pattern> pattern(std::string_view key) {
    const std::optional<std::string> text = top_.text(key);
    if (!text) return std::nullopt;
    Result<Pattern> read = parse_pattern(*text);
    if (read.ok()) return std::move(read).value();
    top_.refuse(key, read.error().message());
    return std::nullopt;
  }

  void build_check() {
    const Member* check = top_.find("check");
    if (check == nullptr) return;
    if (check->value.is(Value::Kind::kText))
      plan_.check.pattern = pattern("check");
    else
      plan_.check.command = top_.words("check").value_or(std::vector<std::string>());
  }

  // The scenario reader wants a whole scenario around an expectation.
  std::optional<scenario::Expectation> expectation(const TableReader& table) {
    const Member* expect = table.find("expect");
    if (expect == nullptr) return std::nullopt;
    if (!expect->value.is(Value::Kind::kTable)) {
      table.refuse_type("expect");
      return std::nullopt;
    }
    return build_expectation(*expect, diagnostics_);
  }

  // One table or a list of tables: [generate] and [[generate]].
  template <typename Build>
  void each(std::string_view key, Build build) {
    const Member* member = top_.find(key);
    if (member == nullptr) return;
    const bool is_list = member->value.is(Value::Kind::kList);
    const auto is_table = [](const Value& value) { return value.is(Value::Kind::kTable); };
    const std::vector<Value>& items = member->value.items;
    if (is_table(member->value)) return build(member->value);
    if (!is_list || items.empty() || !std::all_of(items.begin(), items.end(), is_table))
      return top_.refuse_type(key);
    for (const Value& item : items) build(item);
  }

  void build_need(const Value& value) {
    const TableReader table(value, "needs.", kNeedsKeys, diagnostics_);
    table.refuse_unknown();
    Prerequisite need;
    for (const char* const key : {"command", "otherwise"})
      if (table.find(key) == nullptr) table.missing(key);
    need.command = table.words("command").value_or(std::vector<std::string>());
    need.otherwise = table.text("otherwise").value_or("");
    plan_.needs.push_back(std::move(need));
  }

  void build_listed(const Value& value) {
    Listed listed;
    if (build_scenario_entry(value, listed, diagnostics_))
      plan_.scenarios.push_back(std::move(listed));
  }

  void build_generate(const Value& value) {
    const TableReader table(value, "generate.", kGenerateKeys, diagnostics_);
    table.refuse_unknown();
    Generate generate;
    generate.line = value.place.line;
    build_calls(table, generate);
    if (table.find("actions") == nullptr) table.missing("actions");
    generate.actions = table.texts("actions").value_or(std::vector<std::string>());
    for (const std::string& action : generate.actions) check_action(table, action);
    const Member* ranks = table.find("ranks");
    const bool is_each =
        ranks == nullptr || (ranks->value.is(Value::Kind::kText) && ranks->value.text == "each");
    if (!is_each) generate.ranks = table.numbers("ranks").value_or(scenario::NumberSet());
    build_phases(table, generate);
    generate.budget = table.whole("budget", 1, kBudgetMax).value_or(kBudgetDefault);
    generate.expect = expectation(table);
    plan_.generators.push_back(std::move(generate));
  }

  void build_calls(const TableReader& table, Generate& generate) {
    const Member* calls = table.find("calls");
    if (calls == nullptr) return;
    if (calls->value.is(Value::Kind::kText) && calls->value.text == "baseline") return;
    generate.calls = table.texts("calls").value_or(std::vector<std::string>());
    for (const std::string& call : generate.calls) {
      const std::string problem = unknown_function_text(call);
      if (!problem.empty()) table.refuse("calls", problem);
    }
  }

  void check_action(const TableReader& table, const std::string& action) {
    const Status read = check_action_text(action);
    if (!read.ok()) table.refuse("actions", read.error().message());
  }

  void build_phases(const TableReader& table, Generate& generate) {
    if (table.find("phases") == nullptr) {
      generate.phases = {Phase::kFirst, Phase::kSteady};
      return;
    }
    for (const std::string& word : table.texts("phases").value_or(std::vector<std::string>())) {
      const std::size_t before = generate.phases.size();
      for (int i = 0; i < kPhaseCount; ++i)
        if (word_of(static_cast<Phase>(i)) == word)
          generate.phases.push_back(static_cast<Phase>(i));
      if (generate.phases.size() == before) return table.refuse_type("phases");
    }
  }

  // What each key allows alone but all together cannot mean.
  void check_whole() {
    if (plan_.scenarios.empty() && plan_.generators.empty() && diagnostics_.empty())
      diagnostics_.add({}, "scenario",
                       "missing; a plan has at least one [[scenario]] or [[generate]]");
    if (plan_.has_baseline) return;
    if (!plan_.generators.empty())
      diagnostics_.add({plan_.generators[0].line, 0}, "generate",
                       "needs the calls of a baseline, and 'baseline = false' asks for none; "
                       "remove one of the two");
    if (plan_.check.exists())
      top_.refuse("check",
                  "compares with the result of the baseline, and 'baseline = false' "
                  "asks for none; remove one of the two");
  }

  const Value& root_;
  Diagnostics& diagnostics_;
  TableReader top_;
  Plan plan_;
};

Status load_scenarios(Plan& plan) {
  const std::size_t slash = plan.file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : plan.file.substr(0, slash + 1);
  for (Listed& listed : plan.scenarios) {
    const std::string where = plan.file + ":" + std::to_string(listed.line) + ": ";
    if (!listed.file.empty()) {
      const std::string path = listed.file[0] == '/' ? listed.file : folder + listed.file;
      const Result<std::string> text = run::read_text_file("scenario", path);
      if (!text.ok())
        return Error(text.error().code(), where + "key 'scenario.file': " + text.error().message());
      listed.scenario = SABOT_TRY(scenario::parse_toml(*text, path));
    }
    SABOT_TRY(scenario::check_decidable(listed.scenario));
  }
  return {};
}

}  // namespace

Result<Plan> parse_plan(std::string_view text, const std::string& filename) {
  SABOT_TRY(scenario::check_text(text, filename));
  Diagnostics diagnostics({scenario::read::Source::Form::kFile, filename, text});
  const std::optional<Value> root = scenario::read::read_toml(text, diagnostics);
  if (!root) return diagnostics.error();
  Plan plan = PlanBuilder(*root, diagnostics).build();
  if (!diagnostics.empty()) return diagnostics.error();
  plan.file = filename;
  return plan;
}

Result<Plan> load_plan(const std::string& path) {
  const std::string text = SABOT_TRY(run::read_text_file("drill plan", path));
  Plan plan = SABOT_TRY(parse_plan(text, path));
  SABOT_TRY(load_scenarios(plan));
  return plan;
}

}  // namespace sabot::drill
