// Deciding, claiming and journalling in that order.
#include "layer/armed_plan.hpp"

#include <string>

#include "abi/names.hpp"
#include "base/log.hpp"
#include "call/thread_state.hpp"
#include "run/identity.hpp"
#include "scenario/print.hpp"

namespace sabot::layer {
namespace {

std::string_view phase_of(const scenario::Action& action) {
  return action.moment() == scenario::Moment::kBefore ? "before" : "after";
}

// injected by Sabot: fault "nic-dies" of scenario "…" (rank 1, AllReduce, call 3)
std::string injected_text(const std::string& title, const scenario::Fault& fault,
                          const abi::Call& call) {
  const int rank = call.rank >= 0 ? call.rank : call.world_rank;
  std::string text = "injected by Sabot: fault \"" + fault.name + "\" of " + title + " (";
  if (rank >= 0) text += "rank " + std::to_string(rank) + ", ";
  return text.append(abi::info(call.function).name) + ", call " + std::to_string(call.nth) + ")";
}

run::JournalEntry entry_of(const scenario::Scenario& scenario, const scenario::Fault& fault,
                           const abi::Call& call) {
  run::JournalEntry entry;
  entry.scenario = scenario.name;
  entry.fault = fault.name;
  entry.code = abi::result_name(fault.action.result());
  entry.phase = phase_of(fault.action);
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

}  // namespace

std::string title_of(const scenario::Scenario& scenario) {
  return scenario.name.empty() ? "the command line" : "scenario \"" + scenario.name + "\"";
}

ArmedPlan::ArmedPlan(const scenario::Scenario& scenario, std::string title, Ledger& ledger,
                     std::span<scenario::FaultTally> tallies)
    : title_(std::move(title)), ledger_(ledger) {
  scenario::Context context;
  const std::string host = run::host_name();
  context.start_ns = run::now().monotonic_ns;
  context.host = host;
  context.tallies = tallies;
  decider_ = std::make_unique<scenario::Decider>(scenario, context);
  FunctionSet functions{};
  for (const abi::FunctionInfo& row : abi::all_functions())
    if (decider_->is_interested(row.id)) add(functions, row.id);
  set_concerns(functions);
}

void ArmedPlan::report_once(const std::string& text) {
  if (!reported_.exchange(true)) log::line(text);
}

bool ArmedPlan::claim(const abi::Call& call, const scenario::Firing& firing) {
  const Result<Ledger::Claim> claim = ledger_.claim(firing.fault);
  if (!claim.ok()) {
    report_once(claim.error().message());
    return false;
  }
  if (!claim->allowed) {
    decider_->retire(firing.fault);
    return false;
  }
  const scenario::Fault& fault = decider_->fault(firing.fault);
  run::JournalEntry entry = entry_of(decider_->scenario(), fault, call);
  const std::string line = scenario::to_line(fault);
  const std::string action = line.substr(line.rfind('=', line.rfind('(')) + 1);
  entry.action = action;
  entry.match = firing.number;
  entry.budget_claim = claim->number;
  if (const Status proven = ledger_.prove(fault, entry); !proven.ok())
    report_once(proven.error().message());
  return true;
}

std::optional<Firing> ArmedPlan::consider(const abi::Call& call) {
  if (!decider_->is_interested(call.function)) return std::nullopt;
  const call::KeepErrno keep;
  const scenario::Verdict wanted = decider_->enter(call, run::now().monotonic_ns);
  if (wanted.empty()) return std::nullopt;
  const scenario::Verdict kept =
      decider_->settle(wanted, [&](const scenario::Firing& firing) { return claim(call, firing); });
  for (const scenario::Firing& firing : kept) {
    const scenario::Fault& fault = decider_->fault(firing.fault);
    if (fault.action.kind != scenario::ActionKind::kError) continue;
    thread_local std::string text;
    text = injected_text(title_, fault, call);
    return Firing{static_cast<ncclResult_t>(fault.action.result()),
                  fault.action.moment() == scenario::Moment::kBefore, text.c_str()};
  }
  return std::nullopt;
}

void ArmedPlan::pass_over(const abi::Call& call) {
  if (!decider_->is_interested(call.function)) return;
  const call::KeepErrno keep;
  decider_->enter(call, run::now().monotonic_ns);
}

}  // namespace sabot::layer
