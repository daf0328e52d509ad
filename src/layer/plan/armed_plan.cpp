// Deciding, claiming and journalling in that order.
#include "layer/plan/armed_plan.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "abi/names.hpp"
#include "base/log.hpp"
#include "call/thread_state.hpp"
#include "run/identity.hpp"
#include "scenario/print.hpp"

namespace sabot::layer {
namespace {

using scenario::ActionKind;

std::string_view phase_of(const scenario::Act& act) {
  return act.moment == scenario::Moment::kBefore ? "before" : "after";
}

bool has_code(ActionKind kind) {
  return kind == ActionKind::kError || kind == ActionKind::kAsyncError ||
         kind == ActionKind::kExhaust;
}

// The action as it stands in the one-line form, whatever the fault's conditions are.
std::string action_text(const scenario::Fault& fault) {
  scenario::Fault plain;
  plain.name = "f";
  plain.when.call = {scenario::CallTerm{scenario::CallGroup::kAny, {}}};
  plain.action = fault.action;
  const std::string line = scenario::to_line(plain);
  return line.substr(line.find('=') + 1);
}

std::string_view beginning_of(const scenario::Act& act) {
  if (act.kind != ActionKind::kExhaust) return "";
  return act.exhaust == scenario::ExhaustKind::kAllocation ? "out of memory, "
                                                           : "registration failed, ";
}

// injected by Sabot: fault "nic-dies" of scenario "…" (rank 1, AllReduce, call 3)
std::string injected_text(const std::string& title, const scenario::Fault& fault,
                          const scenario::Act& act, const abi::Call& call) {
  const int rank = call.rank >= 0 ? call.rank : call.world_rank;
  std::string text(beginning_of(act));
  text += "injected by Sabot: fault \"" + fault.name + "\" of " + title + " (";
  if (rank >= 0) text += "rank " + std::to_string(rank) + ", ";
  return text.append(abi::info(call.function).name) + ", call " + std::to_string(call.nth) + ")";
}

// The texts of one call's firings, until this thread's next one. On the heap, for the reason that
// call/last_error.cpp gives.
using Texts = std::array<std::string, Firings::kMax>;
thread_local std::unique_ptr<Texts> thread_texts;

const char* keep_text(std::size_t place, std::string text) {
  if (thread_texts == nullptr) thread_texts = std::make_unique<Texts>();
  return ((*thread_texts)[place] = std::move(text)).c_str();
}

}  // namespace

std::string title_of(const scenario::Scenario& scenario) {
  return scenario.name.empty() ? "the command line" : "scenario \"" + scenario.name + "\"";
}

ArmedPlan::ArmedPlan(const scenario::Scenario& scenario, PlanSource source, Ledger& ledger,
                     std::span<scenario::FaultTally> tallies)
    : source_(std::move(source)), ledger_(ledger) {
  scenario::Context context;
  const std::string host = run::host_name();
  context.start_ns = run::now().monotonic_ns;
  context.host = host;
  context.tallies = tallies;
  decider_ = std::make_unique<scenario::Decider>(scenario, context);
  for (const scenario::Fault& fault : scenario.faults)
    prepared_.push_back({scenario::act_of(fault.action), action_text(fault)});
  FunctionSet functions{};
  for (const abi::FunctionInfo& row : abi::all_functions())
    if (decider_->is_interested(row.id)) add(functions, row.id);
  set_concerns(functions);
}

bool ArmedPlan::acts_on_streams() const {
  return std::any_of(prepared_.begin(), prepared_.end(), [](const Prepared& prepared) {
    const scenario::Act& act = prepared.act;
    const bool is_wait = act.kind == ActionKind::kDelay || act.kind == ActionKind::kHang;
    return (is_wait && !act.on_host) || act.kind == ActionKind::kAsyncError ||
           act.kind == ActionKind::kCorrupt;
  });
}

void ArmedPlan::report_once(const std::string& text) {
  if (!reported_.exchange(true)) log::line(text);
}

run::JournalEntry ArmedPlan::entry_of(const abi::Call& call, std::uint32_t index) const {
  const scenario::Fault& fault = decider_->fault(index);
  const Prepared& prepared = prepared_[index];
  run::JournalEntry entry;
  entry.scenario = decider_->scenario().name;
  entry.fault = fault.name;
  entry.action = prepared.action;
  if (has_code(prepared.act.kind)) entry.code = abi::result_name(prepared.act.result);
  entry.phase = phase_of(prepared.act);
  entry.function = abi::info(call.function).name;
  entry.comm = call.comm_label;
  entry.comm_name = call.comm_name;
  entry.datatype = abi::datatype_name(call.datatype);
  entry.redop = abi::redop_name(call.redop);
  entry.comm_ranks = call.comm_ranks;
  entry.rank = call.rank;
  entry.world_rank = call.world_rank;
  entry.root = call.root;
  entry.peer = call.peer;
  entry.attempt = call.attempt;
  entry.has_count = call.has_count;
  entry.in_place = call.in_place;
  entry.captured = call.captured;
  entry.count = call.count;
  entry.bytes = call.bytes;
  entry.nth = call.nth;
  entry.nth_collective = call.nth_collective;
  entry.group = call.group;
  entry.group_position = call.group_position;
  entry.thread = call.thread;
  entry.budget_limit = fault.budget;
  return entry;
}

bool ArmedPlan::claim(const abi::Call& call, const scenario::Firing& firing) {
  if (firing.is_requested &&
      !source_.control->claim_fire({source_.number, firing.fault}, call.world_rank))
    return false;
  const Result<Ledger::Claim> claim = ledger_.claim(firing.fault);
  if (!claim.ok()) {
    report_once(claim.error().message());
    return false;
  }
  if (!claim->allowed) {
    decider_->retire(firing.fault);
    return false;
  }
  run::JournalEntry entry = entry_of(call, firing.fault);
  entry.match = firing.number;
  entry.budget_claim = claim->number;
  if (const Status proven = ledger_.prove(decider_->fault(firing.fault), entry); !proven.ok())
    report_once(proven.error().message());
  if (source_.control != nullptr) source_.control->count_fired({source_.number, firing.fault});
  return true;
}

scenario::Controls ArmedPlan::controls(const abi::Call& call) const {
  if (source_.control == nullptr) return {};
  const run::Control& page = *source_.control;
  scenario::Controls controls;
  controls.generation = page.generation();
  controls.switches = page.switches(source_.number);
  controls.armed = page.armed(source_.number);
  controls.fire = page.fires_for(source_.number, call.world_rank);
  return controls;
}

void ArmedPlan::consider(const abi::Call& call, Firings& firings) {
  if (!decider_->is_interested(call.function)) return;
  const call::KeepErrno keep;
  const std::uint64_t now_ns = decider_->uses_clock() ? run::recent_monotonic_ns() : 0;
  const scenario::Verdict wanted = decider_->enter(call, now_ns, controls(call));
  if (__builtin_expect(wanted.empty(), 1)) return;
  std::size_t room = Firings::kMax - firings.size();
  const bool is_replaced = firings.has_replacement();
  const scenario::Verdict kept = decider_->settle(wanted, [&](const scenario::Firing& firing) {
    const bool replaces = scenario::replaces_call(prepared_[firing.fault].act.kind);
    if (room == 0 || (replaces && is_replaced) || !claim(call, firing)) return false;
    --room;
    return true;
  });
  for (const scenario::Firing& firing : kept) {
    const scenario::Act& act = prepared_[firing.fault].act;
    const scenario::Fault& fault = decider_->fault(firing.fault);
    firings.add({act, firing.bits, FaultId{source_.number, firing.fault},
                 keep_text(firings.size(), injected_text(source_.title, fault, act, call))});
  }
}

void ArmedPlan::refuse(const abi::Call& call, const Firing& firing, const std::string& why) {
  const call::KeepErrno keep;
  const scenario::Fault& fault = decider_->fault(firing.fault.index);
  if (!refused_.exchange(true))
    log::line("fault \"" + fault.name + "\" of " + source_.title +
              " fired and did nothing: " + why);
  run::JournalEntry entry = entry_of(call, firing.fault.index);
  entry.refused = why;
  if (const Status written = ledger_.note(entry); !written.ok())
    report_once(written.error().message());
}

}  // namespace sabot::layer
