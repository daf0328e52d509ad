// The run as a list of passes; each one either adds to what is known or ends the run with a
// sentence.
#include "launch/run.hpp"

#include <memory>

#include "base/log.hpp"
#include "base/text.hpp"
#include "launch/child_environment.hpp"
#include "launch/command.hpp"
#include "launch/control/server.hpp"
#include "launch/engine_choice.hpp"
#include "launch/net/net_plugin.hpp"
#include "launch/plan.hpp"
#include "run/budget.hpp"
#include "run/identity.hpp"
#include "run/launcher_mark.hpp"
#include "run/run_folder.hpp"

namespace sabot::launch {
namespace {

using config::KnobId;

void print_lines(const std::string& text) {
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty()) log::line(line);
}

class Run {
 public:
  Run(const RunOptions& options, const Surroundings& surroundings)
      : options_(options),
        surroundings_(surroundings),
        settings_(config::Snapshot::resolve(
            {.environment = surroundings.environment, .command_line = options.knobs})) {}

  RunReport carry_out() {
    for (const config::Problem& problem : settings_.problems()) log::line(problem.text);
    const Status ready = prepare();
    if (!ready.ok()) {
      print_lines(ready.error().message());
      report_.status = refusal_status_;
      return std::move(report_);
    }
    if (settings_.get<KnobId::kDisable>() && !plan_.scenario.faults.empty())
      log::line("SABOT_DISABLE is set: no layer is active, and no fault can fire");
    if (!is_quiet()) log::line(first_line());
    if (!is_quiet() && !net_.text.empty()) log::line(net_.text);
    start_and_wait();
    return std::move(report_);
  }

 private:
  bool is_quiet() const { return settings_.get<KnobId::kQuiet>(); }

  Status prepare() {
    plan_ = SABOT_TRY(load_plan(settings_));
    const std::string path(settings_.get<KnobId::kPath>());
    program_ = SABOT_TRY(find_program(options_.command.at(0), path));
    refusal_status_ = kStatusNothingAttached;
    if (std::string why = unreachable_text(program_); !why.empty())
      return Error(Code::kUnsupported, why);
    refusal_status_ = kStatusBadInput;
    engine_ = SABOT_TRY(choose());
    library_ = SABOT_TRY(checked_library(engine_.is_real ? surroundings_.installation.preload()
                                                         : surroundings_.installation.standin()));
    HostMachine machine{std::string(settings_.get<KnobId::kPath>())};
    net_ = SABOT_TRY(net_environment(plan_.scenario, engine_.is_real, settings_,
                                     surroundings_.installation, machine));
    return prepare_folder();
  }

  Result<EngineChosen> choose() {
    EngineFacts facts;
    facts.asked = settings_.get<KnobId::kEngine>();
    const config::Source source = settings_.value(KnobId::kEngine).source;
    facts.asked_by = source == config::Source::kCommandLine ? "--engine" : "SABOT_ENGINE";
    if (facts.asked == config::EngineChoice::kAuto)
      facts.devices = probe_devices(surroundings_.count_devices);
    const bool may_be_real = facts.asked == config::EngineChoice::kReal ||
                             (facts.devices.has_value() && facts.devices->ok());
    if (may_be_real) {
      HostMachine machine{std::string(settings_.get<KnobId::kPath>())};
      facts.nccl = SABOT_TRY(search_nccl(machine, request()));
    }
    Result<EngineChosen> engine = choose_engine(facts);
    if (!engine.ok()) refusal_status_ = kStatusNothingAttached;
    return engine;
  }

  NcclRequest request() const {
    return {.words = options_.command,
            .real_nccl = std::string(settings_.get<KnobId::kRealNccl>()),
            .conda_prefix = std::string(settings_.get<KnobId::kCondaPrefix>()),
            .nccl_root = std::string(settings_.get<KnobId::kNcclRoot>()),
            .library_path = std::string(settings_.get<KnobId::kLdLibraryPath>())};
  }

  bool has_budgets() const {
    for (const scenario::Fault& fault : plan_.scenario.faults)
      if (fault.budget > 0) return true;
    return false;
  }

  Status prepare_folder() {
    run::RunFolder folder = SABOT_TRY(run::RunFolder::prepare(settings_));
    report_.run_folder = folder.path();
    const std::string unshared =
        has_budgets() ? run::unshared_folder_text(folder.path(), settings_.spans_hosts()) : "";
    if (!unshared.empty()) return Error(Code::kInvalidUsage, unshared);
    if (!plan_.file_text.empty()) scenario_copy_ = SABOT_TRY(folder.keep_scenario(plan_.file_text));
    run::RunConfig config;
    config.version = surroundings_.version;
    config.command = options_.command;
    config.engine = engine_.engine();
    config.engine_reason = engine_.reason;
    config.way = engine_.way();
    config.preload = library_;
    config.python = python_folder(surroundings_.installation);
    for (const scenario::Fault& fault : plan_.scenario.faults) config.faults.push_back(fault.name);
    config.settings = &settings_;
    return run::write_config(folder, config);
  }

  std::string first_line() const {
    return std::string("engine ") + engine_.engine() + " (" + engine_.reason + "), way " +
           engine_.way() + ", run folder " + shown_folder();
  }

  // Relative where that is shorter to read: the folder is usually below the working folder.
  std::string shown_folder() const {
    const std::string here = working_folder() + "/";
    return report_.run_folder.starts_with(here) ? report_.run_folder.substr(here.size())
                                                : report_.run_folder;
  }

  void start_and_wait() {
    ChildSettings child;
    child.preload = library_;
    child.tree = surroundings_.installation.root;
    child.python = python_folder(surroundings_.installation);
    child.engine = engine_.engine();
    child.run_folder = report_.run_folder;
    child.scenario = scenario_copy_;
    child.faults = plan_.line;
    child.launcher = run::process_tag();
    child.working_folder = working_folder();
    child.variables = net_.variables;
    Result<run::LauncherMark> mark = run::LauncherMark::place(report_.run_folder, child.launcher);
    if (!mark.ok()) log::line(mark.error().message());
    std::unique_ptr<control::Server> server = control::Server::start(
        {.run_folder = report_.run_folder,
         .scenario = plan_.scenario,
         .unshared = run::unshared_folder_text(report_.run_folder, settings_.spans_hosts())});
    const Result<Ending> ending = run_child(
        program_, options_.command, child_environment(surroundings_.environment, settings_, child));
    server.reset();
    if (!ending.ok()) {
      print_lines(ending.error().message());
      report_.status = kStatusBadInput;
      return;
    }
    report_.started = true;
    report_.ending = *ending;
    report_.evidence = gather_evidence(report_.run_folder, plan_, child.launcher);
    if (mark.ok())
      report_.evidence.launchers_left =
          mark->remove_and_count_others(settings_.get<KnobId::kLauncher>());
    const Conclusion conclusion = conclude(report_.evidence, *ending, options_.require_fired);
    report_.status = conclusion.status;
    if (is_quiet() && !conclusion.is_failure_of_ours) return;
    for (const std::string& line : conclusion.lines) log::line(line);
  }

  const RunOptions& options_;
  const Surroundings& surroundings_;
  config::Snapshot settings_;
  Plan plan_;
  std::string program_;
  EngineChosen engine_;
  std::string library_;
  NetEnvironment net_;
  std::string scenario_copy_;
  int refusal_status_ = kStatusBadInput;
  RunReport report_;
};

}  // namespace

RunReport run(const RunOptions& options, const Surroundings& surroundings) {
  return Run(options, surroundings).carry_out();
}

}  // namespace sabot::launch
