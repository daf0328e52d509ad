// One function a request, and the names they share.
#include "launch/control/desk.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "run/budget.hpp"
#include "run/identity.hpp"
#include "run/read/attach_reader.hpp"
#include "run/read/folder_listing.hpp"
#include "run/read/tally_reader.hpp"
#include "run/text_file.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch::control {
namespace {

Error refused(std::string text) { return Error(Code::kInvalidArgument, std::move(text)); }

Answer done(std::string text) { return {.is_ok = true, .text = std::move(text)}; }

std::string called(const scenario::Fault& fault) { return "fault \"" + fault.name + "\""; }

std::string rank_text(std::int32_t rank) {
  return rank == run::kAnyRank ? "any rank" : "rank " + std::to_string(rank);
}

std::string calls_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " call" : " calls");
}

std::string added_path(const std::string& run_folder, std::size_t number) {
  return run_folder + "/added/" + std::to_string(number) + ".toml";
}

std::uint64_t started_ns_of(const std::string& run_folder) {
  const Result<std::string> text = run::read_text_file("config", run_folder + "/config.json");
  const Result<run::JsonValue> config = run::JsonValue::parse(text.ok() ? *text : "");
  const std::uint64_t now = run::now().epoch_ns;
  return config.ok() ? std::min((*config)["started_ns"].natural(now), now) : now;
}

}  // namespace

run::ControlNames names_of(const scenario::Scenario& scenario) {
  run::ControlNames names;
  for (const scenario::Fault& fault : scenario.faults) names.faults.push_back(fault.name);
  names.switches = scenario::switches_of(scenario);
  names.armed = scenario::armed_at_start(scenario);
  return names;
}

std::vector<scenario::Scenario> added_scenarios(const std::string& run_folder,
                                                std::vector<std::string>& problems) {
  std::vector<scenario::Scenario> added;
  const std::size_t count = run::list_folder(run_folder + "/added", ".toml").size();
  for (std::size_t number = 1; number <= count; ++number) {
    const std::string path = added_path(run_folder, number);
    const Result<std::string> text = run::read_text_file("scenario", path);
    Result<scenario::Scenario> read =
        text.ok() ? scenario::parse_toml(*text, path) : Result<scenario::Scenario>(text.error());
    if (!read.ok()) problems.push_back(read.error().message());
    added.push_back(read.ok() ? std::move(read).value() : scenario::Scenario{});
  }
  return added;
}

Desk::Desk(DeskFacts facts, run::ControlWriter writer)
    : facts_(std::move(facts)),
      writer_(std::move(writer)),
      started_ns_(started_ns_of(facts_.run_folder)) {
  plans_.push_back(facts_.scenario);
  for (scenario::Scenario& added : added_scenarios(facts_.run_folder, problems_))
    if (plans_.size() <= writer_.added()) plans_.push_back(std::move(added));
}

std::string Desk::answer(std::string_view line) {
  Result<Request> request = parse_request(line);
  Result<Answer> answer = request.ok() ? carry_out(*request) : Result<Answer>(request.error());
  if (answer.ok()) return to_line(*answer);
  return to_line(Answer{.is_ok = false, .text = answer.error().message()});
}

Result<Answer> Desk::carry_out(const Request& request) {
  switch (request.verb) {
    case Verb::kStatus: return Answer{.is_ok = true, .status = to_json(status())};
    case Verb::kArm: return arm(request.name, true);
    case Verb::kDisarm: return arm(request.name, false);
    case Verb::kFire: return fire(request);
    case Verb::kRelease: return release(request.name);
    case Verb::kAdd: return add(request);
  }
  return refused("unknown request");
}

std::optional<Desk::Known> Desk::fault_named(std::string_view name) const {
  for (std::uint32_t plan = 0; plan < plans_.size(); ++plan) {
    const std::vector<scenario::Fault>& faults = plans_[plan].faults;
    for (std::uint32_t i = 0; i < faults.size() && i < run::kControlFaultsMax; ++i)
      if (faults[i].name == name) return Known{{plan, i}, &faults[i]};
  }
  return std::nullopt;
}

std::vector<Desk::Switch> Desk::switches_named(std::string_view name) const {
  std::vector<Switch> found;
  for (std::uint32_t plan = 0; plan < plans_.size(); ++plan) {
    const std::vector<std::string> names = scenario::switches_of(plans_[plan]);
    for (std::uint32_t bit = 0; bit < names.size(); ++bit)
      if (names[bit] == name) found.push_back({plan, bit});
  }
  return found;
}

Error Desk::unknown(std::string_view name) const {
  std::vector<std::string> known;
  for (const scenario::Scenario& plan : plans_) {
    for (const scenario::Fault& fault : plan.faults) known.push_back(fault.name);
    for (const std::string& one : scenario::switches_of(plan)) known.push_back(one);
  }
  if (known.empty())
    return refused("the run has no faults; `sabot ctl add FILE` gives it some while it runs");
  const std::vector<std::string_view> views(known.begin(), known.end());
  const auto close = nearest(name, views);
  return refused("no fault or switch is called " + quoted(name) +
                 (close ? "; did you mean '" + std::string(*close) + "'?"
                        : "; `sabot ctl status` lists them"));
}

Result<Desk::Known> Desk::need_fault(std::string_view name, std::string_view why_no_switch) const {
  if (const std::optional<Known> known = fault_named(name)) return *known;
  if (switches_named(name).empty()) return unknown(name);
  return refused(quoted(name) + " is a switch: " + std::string(why_no_switch));
}

std::size_t Desk::held_by(const run::ControlFault& fault) {
  const std::vector<run::HeldCall> held = writer_.held();
  return static_cast<std::size_t>(
      std::count_if(held.begin(), held.end(), [&fault](const run::HeldCall& call) {
        return call.fault.plan == fault.plan && call.fault.fault == fault.fault;
      }));
}

Result<Answer> Desk::arm(const std::string& name, bool is_armed) {
  if (const std::optional<Known> known = fault_named(name)) return arm_fault(*known, is_armed);
  const std::vector<Switch> switches = switches_named(name);
  if (switches.empty()) return unknown(name);
  for (const Switch& one : switches) writer_.set_switch(one.plan, one.bit, is_armed);
  return done("switch \"" + name + "\" is " + (is_armed ? "on" : "off"));
}

Answer Desk::arm_fault(const Known& known, bool is_armed) {
  const bool was_armed = writer_.is_armed(known.where);
  const bool was_asked = writer_.waiting_fire(known.where).has_value();
  writer_.set_armed(known.where, is_armed);
  std::string text = called(*known.fault) + " is " + (is_armed ? "armed" : "disarmed");
  if (was_armed == is_armed) text += ", as it was";
  if (is_armed) return done(text);
  writer_.withdraw_fire(known.where);
  if (was_asked) text += "; it is not asked to fire any more";
  if (const std::size_t held = held_by(known.where); held > 0)
    text += "; it still holds " + calls_text(held) + ": `sabot ctl release " + known.fault->name +
            "` lets go";
  return done(text);
}

std::uint64_t Desk::left_of(const scenario::Fault& fault) const {
  const std::uint64_t used = run::Budget::count_claims(facts_.run_folder, fault.name);
  return fault.budget > used ? fault.budget - used : 0;
}

Result<Answer> Desk::fire(const Request& request) {
  const Known known = SABOT_TRY(need_fault(request.name, "it is armed, only a fault fires"));
  const std::int32_t rank = request.rank.value_or(run::kAnyRank);
  const std::uint64_t ranks = plans_[known.where.plan].ranks;
  if (ranks > 0 && rank >= 0 && static_cast<std::uint64_t>(rank) >= ranks)
    return refused("rank " + std::to_string(rank) + " is none of the " + std::to_string(ranks) +
                   " that the scenario says the job has");
  if (known.fault->budget > 0 && left_of(*known.fault) == 0)
    return refused(called(*known.fault) + " has used up its budget of " +
                   std::to_string(known.fault->budget) + " and fires no more in this run");
  const std::optional<std::int32_t> waiting = writer_.waiting_fire(known.where);
  if (waiting && *waiting != rank)
    return refused(called(*known.fault) + " is asked to fire on " + rank_text(*waiting) +
                   " already and has not yet; `sabot ctl disarm " + known.fault->name +
                   "` withdraws that");
  if (!waiting) writer_.request_fire(known.where, rank);
  std::string text = called(*known.fault) + " fires once, on " + rank_text(rank) +
                     ", at the next call that meets its conditions, counts, times and chance apart";
  if (waiting) text += "; that was asked before";
  const std::string& name = known.fault->when.switch_name;
  const std::vector<Switch> switches = switches_named(name);
  if (!switches.empty() && !writer_.is_switched_on(switches[0].plan, switches[0].bit))
    text += "; not before its switch is on: `sabot ctl arm " + name + "`";
  return done(text);
}

Result<Answer> Desk::release(const std::string& name) {
  if (name.empty()) {
    const std::size_t held = writer_.held().size();
    writer_.release_all();
    return done("everything is released (" + calls_text(held) + " held)");
  }
  const Known known = SABOT_TRY(need_fault(name, "it holds nothing"));
  const std::size_t held = held_by(known.where);
  writer_.release(known.where);
  return done(called(*known.fault) + " is released (" + calls_text(held) + " held)");
}

Status Desk::check_addable(const scenario::Scenario& scenario, const std::string& file) const {
  SABOT_TRY(scenario::check_decidable(scenario));
  for (const scenario::Fault& fault : scenario.faults) {
    if (fault_named(fault.name))
      return refused(
          file + ": " + called(fault) +
          " is in this run already; budgets and journal go by names, so give it another");
    if (fault.budget > 0 && !facts_.unshared.empty()) return refused(facts_.unshared);
  }
  if (plans_.size() >= run::kControlPlansMax)
    return refused(file + ": " + std::to_string(plans_.size() - 1) +
                   " scenarios were added to this run, which is as many as it takes");
  return {};
}

Result<Answer> Desk::add(const Request& request) {
  constexpr std::size_t kPathMax = 4096;
  const std::string file =
      request.file.empty() ? "the added scenario" : printable(request.file, kPathMax);
  scenario::Scenario scenario = SABOT_TRY(scenario::parse_toml(request.text, file));
  SABOT_TRY(check_addable(scenario, file));
  const std::size_t number = plans_.size();
  SABOT_TRY(run::make_folders(facts_.run_folder + "/added"));
  SABOT_TRY(run::write_file(added_path(facts_.run_folder, number), request.text));
  const std::vector<std::string> names = scenario::switches_of(scenario);
  std::uint64_t switches = 0;
  for (std::size_t bit = 0; bit < names.size(); ++bit) {
    const std::vector<Switch> same = switches_named(names[bit]);
    if (!same.empty() && writer_.is_switched_on(same[0].plan, same[0].bit))
      switches |= std::uint64_t{1} << bit;
  }
  writer_.count_added(scenario::armed_at_start(scenario), switches);
  std::string text = file + ": added";
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    text += (i == 0 ? " " : ", ") + called(scenario.faults[i]);
  plans_.push_back(std::move(scenario));
  return done(text);
}

FaultStatus Desk::fault_status(const Known& known, const std::vector<run::HeldCall>& held) const {
  FaultStatus status;
  status.name = known.fault->name;
  status.added = known.where.plan;
  status.is_armed = writer_.is_armed(known.where);
  status.fired = writer_.fired(known.where);
  status.budget = known.fault->budget;
  if (status.budget > 0) status.left = left_of(*known.fault);
  if (const auto waiting = writer_.waiting_fire(known.where))
    status.waits_for = rank_text(*waiting);
  const std::uint64_t now = run::now().epoch_ns;
  for (const run::HeldCall& call : held) {
    if (call.fault.plan != known.where.plan || call.fault.fault != known.where.fault) continue;
    const std::uint64_t for_ns = now > call.since_ns ? now - call.since_ns : 0;
    status.held.push_back({call.world_rank, call.pid, for_ns / 1'000'000});
  }
  return status;
}

RunStatus Desk::status() {
  RunStatus status;
  status.run_folder = facts_.run_folder;
  status.host = run::host_name();
  status.launcher_pid = ::getpid();
  const std::uint64_t now = run::now().epoch_ns;
  status.running_ms = now > started_ns_ ? (now - started_ns_) / 1'000'000 : 0;
  status.problems = problems_;
  count_processes(status);
  const std::vector<run::HeldCall> held = writer_.held();
  std::set<std::string> seen;
  for (std::uint32_t plan = 0; plan < plans_.size(); ++plan) {
    const scenario::Scenario& scenario = plans_[plan];
    for (std::uint32_t i = 0; i < scenario.faults.size(); ++i)
      status.faults.push_back(fault_status({{plan, i}, &scenario.faults[i]}, held));
    const std::vector<std::string> switches = scenario::switches_of(scenario);
    for (std::uint32_t bit = 0; bit < switches.size(); ++bit)
      if (seen.insert(switches[bit]).second)
        status.switches.push_back({switches[bit], writer_.is_switched_on(plan, bit)});
  }
  return status;
}

void Desk::count_processes(RunStatus& status) const {
  const std::string host = run::host_name();
  for (const run::AttachRecord& record :
       run::read_attach_records(facts_.run_folder, status.problems)) {
    if (!record.attached) continue;
    ++status.attached;
    if (record.host != host)
      ++status.elsewhere;
    else if (!run::process_has_ended(static_cast<int>(record.pid)))
      ++status.alive;
  }
  for (const run::TallyRecord& tally : run::read_tallies(facts_.run_folder, status.problems))
    status.calls_seen += tally.calls_seen;
}

}  // namespace sabot::launch::control
