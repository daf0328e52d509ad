// The drill as a list of passes.
#include "drill/drill.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.hpp"
#include "base/units.hpp"
#include "drill/cases.hpp"
#include "drill/folder.hpp"
#include "drill/judge/gather.hpp"
#include "drill/judge/judge.hpp"
#include "drill/plan/parse.hpp"
#include "drill/pool.hpp"
#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/read/json_value.hpp"
#include "run/text_file.hpp"
#include "scenario/print.hpp"

namespace sabot::drill {
namespace {

constexpr int kDrawMs = 250;
constexpr std::uint64_t kNeedsDeadlineNs = 60'000'000'000;

// What makes the cases what they are: a drill is resumed only as it was begun.
std::string identity_of(const Plan& plan, std::string_view plan_text) {
  run::JsonWriter json(run::JsonWriter::Style::kIndented);
  json.begin_object();
  json.field("plan_hash", std::to_string(hash_text(plan_text)));
  json.key("command").begin_array();
  for (const std::string& word : plan.command) json.value(word);
  json.end_array();
  json.field("seed", plan.seed);
  json.key("budgets").begin_array();
  for (const Generate& generate : plan.generators) json.value(generate.budget);
  json.end_array();
  json.key("scenarios").begin_array();
  for (const Listed& listed : plan.scenarios) json.value(scenario::to_toml(listed.scenario));
  json.end_array().end_object();
  return json.take();
}

class Drill {
 public:
  Drill(const DrillOptions& options, const DrillSurroundings& around, Plan plan, DrillFolder folder)
      : options_(options),
        around_(around),
        plan_(std::move(plan)),
        folder_(std::move(folder)),
        progress_(around.progress) {
    end_.report.name = plan_.name;
    end_.report.plan_file = plan_.file;
    end_.report.folder = folder_.path();
    end_.report.command = plan_.command;
    end_.report.seed = plan_.seed;
    end_.report.version = around_.version;
    end_.report.started_ns = run::now().epoch_ns;
  }

  Result<DrillEnd> carry_out() {
    progress_.say("drill in " + folder_.path());
    if (!are_needs_met()) return finish();
    if (plan_.has_baseline) SABOT_TRY(run_baseline());
    if (pool_.signal() != 0) return finish();
    SABOT_TRY(list_cases());
    run_cases();
    return finish();
  }

 private:
  Places places_of(const CaseFolder& mine) const { return {mine, folder_.baseline()}; }

  bool are_needs_met() {
    for (const Prerequisite& need : plan_.needs) {
      Order order;
      order.program = need.command.at(0);
      order.words = need.command;
      order.environment = environment_for_runs(around_.environment);
      order.output = folder_.path() + "/needs.log";
      order.folder = folder_.path();
      order.deadline_ns = kNeedsDeadlineNs;
      const Result<Ending> ending = pool_.run(order);
      if (pool_.signal() != 0) return false;
      if (ending.ok() && ending->started && ending->stop == Stop::kNone &&
          ending->exit_status == 0 && ending->signal == 0)
        continue;
      end_.report.skipped = need.otherwise;
      progress_.say("skipped: " + need.otherwise);
      return false;
    }
    return true;
  }

  Order order_of(const CaseFolder& mine, const PlannedCase& planned) const {
    Order order;
    order.program = around_.program;
    order.words = {around_.program, "run", "--run-folder", mine.run()};
    if (!planned.scenario.faults.empty())
      order.words.insert(order.words.end(), {"--scenario", mine.scenario()});
    if (!plan_.engine.empty()) order.words.insert(order.words.end(), {"--engine", plan_.engine});
    order.words.push_back("--");
    for (std::string& word : filled_in(plan_.command, places_of(mine)))
      order.words.push_back(std::move(word));
    order.environment = environment_for_runs(around_.environment);
    order.output = mine.output();
    order.folder = mine.path();
    order.deadline_ns = planned.deadline_ns;
    return order;
  }

  Status run_baseline() {
    PlannedCase planned;
    planned.name = "baseline";
    planned.deadline_ns = plan_.deadline_ns;
    planned.states_expectation = true;
    planned.expect.outcomes = scenario::bit_of(scenario::Outcome::kCompletes);
    const CaseFolder mine = folder_.baseline();
    std::optional<CaseFolder::Finished> finished = mine.finished();
    if (!finished) {
      progress_.say("baseline: the command without a fault");
      SABOT_TRY(mine.prepare());
      Order order = order_of(mine, planned);
      if (!plan_.generators.empty()) SABOT_TRY(log_calls(mine, order));
      finished.emplace();
      finished->ending = SABOT_TRY(pool_.run(order));
      if (pool_.signal() != 0) return {};
      const bool is_good = finished->ending.exit_status == 0 && finished->ending.signal == 0;
      if (is_good && plan_.check.exists()) SABOT_TRY(check_baseline(mine, *finished));
      if (is_good) SABOT_TRY(mine.finish(*finished));
    }
    end_.report.baseline = judge(gather(planned, plan_, places_of(mine), *finished));
    return is_usable(*end_.report.baseline, finished->ending);
  }

  static Status log_calls(const CaseFolder& mine, Order& order) {
    SABOT_TRY(run::make_folders(mine.calls()));
    std::string folder;
    for (const char c : mine.calls()) folder += c == '%' ? "%%" : std::string(1, c);
    order.environment.push_back("SABOT_LOG=calls");
    order.environment.push_back("SABOT_LOG_FILE=" + folder + "/%h.%p.log");
    order.environment.push_back("SABOT_LOG_RATE=0");
    return {};
  }

  // The check must find the baseline to be as it is: else it would find every case to differ.
  Status check_baseline(const CaseFolder& mine, CaseFolder::Finished& finished) {
    if (plan_.check.pattern)
      finished.check = check_by_pattern(mine);
    else
      finished.check = check_of(mine, SABOT_TRY(pool_.run(check_order(mine))));
    if (pool_.signal() != 0 || finished.check.agrees) return {};
    return Error(Code::kInvalidArgument,
                 "the check does not agree with the baseline itself: " + finished.check.text +
                     "; its output is in '" + mine.check_output() + "'");
  }

  Status is_usable(const Case& baseline, const Ending& ending) const {
    if (ending.stop == Stop::kDeadline)
      return Error(Code::kInvalidUsage,
                   "the command had not ended without any fault after " +
                       format_duration_ns(plan_.deadline_ns) +
                       ", the deadline of the plan; give it a longer 'deadline'");
    if (baseline.holds) return {};
    std::string text = "the command does not complete without any fault";
    for (const std::string& reason : baseline.reasons) text += "\n  " + reason;
    for (const std::string& line : tail_of(folder_.baseline().output(), 8)) text += "\n  " + line;
    return Error(Code::kInvalidUsage,
                 text + "\nits output is in '" + folder_.baseline().output() + "'");
  }

  Status list_cases() {
    std::vector<Calls> calls;
    if (!plan_.generators.empty())
      calls = SABOT_TRY(read_census(folder_.baseline().calls())).calls();
    CaseList list = SABOT_TRY(cases_of(plan_, calls));
    end_.report.left_out = list.left_out;
    cases_ = std::move(list.cases);
    if (!end_.report.baseline) return {};
    for (const PlannedCase& planned : cases_)
      if (planned.deadline_ns < end_.report.baseline->duration_ns())
        return Error(Code::kInvalidUsage,
                     "case '" + planned.name + "': the deadline of " +
                         format_duration_ns(planned.deadline_ns) + " is shorter than the " +
                         format_duration_ns(end_.report.baseline->duration_ns()) +
                         " that the command takes without any fault; every case would be ended "
                         "early");
    return {};
  }

  void run_cases() {
    end_.report.cases.resize(cases_.size());
    progress_.begin(cases_.size());
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const std::optional<CaseFolder::Finished> finished = folder_.numbered(i).finished();
      if (finished)
        record(i, *finished);
      else
        waiting.push_back(i);
    }
    std::size_t next = 0;
    while (next < waiting.size() || pool_.at_work() > 0) {
      while (next < waiting.size() && pool_.at_work() < plan_.parallel && pool_.signal() == 0)
        begin(waiting[next++]);
      if (pool_.signal() != 0) next = waiting.size();
      progress_.draw(running_names());
      for (Pool::Ended& ended : pool_.wait(kDrawMs)) take(ended.id, std::move(ended.ending));
    }
    for (const std::size_t index : waiting) note_unreached(index);
  }

  std::vector<std::string> running_names() const {
    std::vector<std::string> names;
    for (const auto& [index, running] : running_) names.push_back(cases_[index].name);
    return names;
  }

  // What cannot even be written down is judged at once, so that the others still run.
  void begin(std::size_t index) {
    const CaseFolder mine = folder_.numbered(index);
    Status ready = mine.prepare();
    if (ready.ok()) ready = run::write_file(mine.scenario(), scenario_text(cases_[index]));
    if (ready.ok()) ready = pool_.start(index, order_of(mine, cases_[index]));
    running_[index] = {};
    if (ready.ok()) return;
    Ending ending;
    ending.problem = "could not record: " + ready.error().message();
    ending.started_ns = ending.finished_ns = run::now().epoch_ns;
    conclude(index, {std::move(ending), {}});
  }

  void take(std::size_t index, Ending ending) {
    Running& running = running_[index];
    const CaseFolder mine = folder_.numbered(index);
    if (running.is_checking) {
      running.finished.check = check_of(mine, ending);
      conclude(index, std::move(running.finished));
      return;
    }
    const bool is_good =
        ending.stop == Stop::kNone && ending.exit_status == 0 && ending.signal == 0;
    running.finished.ending = std::move(ending);
    if (is_good && !plan_.check.command.empty() && pool_.signal() == 0) {
      running.is_checking = true;
      if (pool_.start(index, check_order(mine)).ok()) return;
      running.finished.check.text = "could not start";
    }
    if (is_good && plan_.check.pattern) running.finished.check = check_by_pattern(mine);
    conclude(index, std::move(running.finished));
  }

  void conclude(std::size_t index, CaseFolder::Finished finished) {
    running_.erase(index);
    // A case that the drill itself cut short is run again by --resume.
    if (finished.ending.stop == Stop::kInterrupted || pool_.signal() != 0) return;
    const CaseFolder mine = folder_.numbered(index);
    disk_problem_ = disk_problem_of(folder_.path());
    const bool is_recorded = finished.ending.problem.empty() && disk_problem_.empty();
    if (is_recorded)
      if (const Status kept = mine.finish(finished); !kept.ok())
        disk_problem_ = kept.error().message();
    record(index, finished);
    disk_problem_.clear();
  }

  void record(std::size_t index, const CaseFolder::Finished& finished) {
    Evidence evidence = gather(cases_[index], plan_, places_of(folder_.numbered(index)), finished);
    evidence.disk_problem = disk_problem_;
    end_.report.cases[index] = judge(evidence);
    progress_.finished(end_.report.cases[index]);
  }

  void note_unreached(std::size_t index) {
    Case& one = end_.report.cases[index];
    if (!one.name.empty()) return;
    one.name = cases_[index].name;
    one.scenario = cases_[index].scenario.name;
    one.note = "the drill was ended before this case was";
    one.reasons = {one.note};
  }

  Order check_order(const CaseFolder& mine) const {
    Order order;
    order.words = filled_in(plan_.check.command, places_of(mine));
    order.program = order.words.at(0);
    order.environment = environment_for_runs(around_.environment);
    order.output = mine.check_output();
    order.folder = mine.path();
    order.deadline_ns = plan_.deadline_ns;
    return order;
  }

  // A command that does not compare by itself is compared by what it prints.
  Check check_of(const CaseFolder& mine, const Ending& ending) const {
    const std::vector<std::string> tail = tail_of(mine.check_output(), 1);
    const std::string said = tail.empty() ? "" : ": " + tail.back();
    if (!ending.started) return {false, false, ending.problem};
    if (ending.stop != Stop::kNone)
      return {false, false, "it had not ended after " + format_duration_ns(plan_.deadline_ns)};
    if (ending.signal != 0 || ending.exit_status != 0)
      return {true, false,
              "it " +
                  std::string(ending.signal != 0
                                  ? "was killed"
                                  : "ended with status " + std::to_string(ending.exit_status)) +
                  said};
    if (names_baseline(plan_.check.command)) return {true, true, "status 0" + said};
    const auto lines = [](const CaseFolder& folder) {
      return run::read_text_file("output of the check", folder.check_output(),
                                 {.bytes_max = kCheckBytesMax, .may_be_empty = true});
    };
    const Result<std::string> of_mine = lines(mine);
    const Result<std::string> of_baseline = lines(folder_.baseline());
    if (!of_mine.ok()) return {false, false, of_mine.error().message()};
    if (!of_baseline.ok()) return {false, false, of_baseline.error().message()};
    const bool agrees = *of_mine == *of_baseline;
    return {true, agrees,
            (agrees ? "it prints what it does for the baseline"
                    : "it prints something else than for the baseline") +
                said};
  }

  Check check_by_pattern(const CaseFolder& mine) const {
    const auto of_mine = matches_in(*plan_.check.pattern, places_of(mine));
    const auto of_baseline = matches_in(*plan_.check.pattern, places_of(folder_.baseline()));
    if (!of_mine.ok()) return {false, false, of_mine.error().message()};
    if (!of_baseline.ok()) return {false, false, of_baseline.error().message()};
    return compare_matches(*of_mine, *of_baseline);
  }

  DrillEnd finish() {
    progress_.end();
    end_.signal = pool_.signal();
    end_.report.finished_ns = run::now().epoch_ns;
    end_.report.environment = environment_text();
    if (end_.signal != 0)
      end_.status = 128 + end_.signal;
    else if (!end_.report.skipped.empty())
      end_.status = kStatusSkipped;
    else
      end_.status = end_.report.holds() ? kStatusHolds : kStatusFails;
    return std::move(end_);
  }

  // What a result depends on; the engine is what the first run that made one says.
  std::vector<std::pair<std::string, std::string>> environment_text() const {
    std::vector<std::pair<std::string, std::string>> out{{"host", run::host_name()}};
    utsname system{};
    if (::uname(&system) == 0)
      out.emplace_back("system",
                       std::string(system.sysname) + " " + system.release + " " + system.machine);
    out.emplace_back("processors", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)));
    std::vector<std::string> runs{folder_.baseline().run()};
    for (std::size_t i = 0; i < cases_.size(); ++i) runs.push_back(folder_.numbered(i).run());
    for (const std::string& folder : runs) {
      const Result<std::string> text = run::read_text_file("run", folder + "/config.json");
      if (!text.ok()) continue;
      const Result<run::JsonValue> json = run::JsonValue::parse(*text);
      if (!json.ok()) continue;
      out.emplace_back("engine",
                       (*json)["engine"].text() + " (" + (*json)["engine_reason"].text() + ")");
      break;
    }
    return out;
  }

  static constexpr std::uint64_t kCheckBytesMax = 16ULL * 1024 * 1024;
  struct Running {
    bool is_checking = false;
    CaseFolder::Finished finished;
  };

  const DrillOptions& options_;
  const DrillSurroundings& around_;
  Plan plan_;
  DrillFolder folder_;
  Progress progress_;
  Pool pool_;
  DrillEnd end_;
  std::vector<PlannedCase> cases_;
  std::map<std::size_t, Running> running_;  // by index
  std::string disk_problem_;
};

// What the command line says wins over the plan.
Status apply(const DrillOptions& options, Plan& plan) {
  if (!options.command.empty()) plan.command = options.command;
  if (options.parallel) plan.parallel = *options.parallel;
  if (options.seed) plan.seed = *options.seed;
  for (Generate& generate : plan.generators)
    if (options.budget) generate.budget = *options.budget;
  if (plan.name.empty()) plan.name = plan.file.substr(plan.file.rfind('/') + 1);
  if (!plan.command.empty()) return {};
  return Error(Code::kInvalidArgument,
               plan.file +
                   ": key 'command': missing; name the command here, or behind -- on the "
                   "command line");
}

// What needs no baseline to be known.
Status check_listed(const Plan& plan) {
  Plan listed = plan;
  listed.generators.clear();
  SABOT_TRY(cases_of(listed, {}));
  return {};
}

}  // namespace

Result<DrillEnd> carry_out(const DrillOptions& options, const DrillSurroundings& around) {
  Plan plan = SABOT_TRY(load_plan(options.plan));
  SABOT_TRY(apply(options, plan));
  SABOT_TRY(check_listed(plan));
  if (around.check_command != nullptr) SABOT_TRY(around.check_command(plan.command));
  const std::string text = SABOT_TRY(run::read_text_file("drill plan", options.plan));
  DrillFolder folder = SABOT_TRY(DrillFolder::prepare(options.run_folder, options.resume));
  SABOT_TRY(folder.keep_plan(text, identity_of(plan, text)));
  return Drill(options, around, std::move(plan), std::move(folder)).carry_out();
}

}  // namespace sabot::drill
