// The properties, one function each.
#include "properties.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "scenario/decider.hpp"
#include "scenario/explain.hpp"
#include "scenario/parse.hpp"
#include "scenario/print.hpp"

namespace sabot::fuzz {
namespace {

using scenario::Scenario;

void require(bool holds, const char* property, const std::string& evidence) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n%s\n", property, evidence.c_str());
  std::abort();
}

void check_round_trip(const Scenario& parsed) {
  const std::string toml = scenario::to_toml(parsed);
  const Result<Scenario> from_toml = scenario::parse_toml(toml, "printed");
  require(from_toml.ok(), "printed TOML is accepted",
          toml + (from_toml.ok() ? "" : from_toml.error().message()));
  require(*from_toml == parsed, "printed TOML means the same", toml);
  const std::string line = scenario::to_line(parsed);
  if (line.size() > scenario::kLineBytesMax) return;
  const Result<Scenario> from_line = scenario::parse_line(line, "printed");
  require(from_line.ok(), "a printed line is accepted",
          line + "\n" + (from_line.ok() ? "" : from_line.error().message()));
  require(from_line->faults == parsed.faults && from_line->seed == parsed.seed,
          "a printed line means the same", line);
}

bool alike(const scenario::Verdict& a, const scenario::Verdict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const scenario::Firing& one, const scenario::Firing& other) {
                      return one.fault == other.fault && one.number == other.number &&
                             one.bits == other.bits && one.is_requested == other.is_requested;
                    });
}

void check_acts(const Scenario& parsed) {
  for (const scenario::Fault& fault : parsed.faults) {
    const scenario::Act act = scenario::act_of(fault.action);
    require(act.kind == fault.action.kind, "an act is of its action's kind", fault.name);
    require(act.elements >= 1 && act.elements <= scenario::kCorruptElementsMax,
            "a corruption has its bounds", fault.name);
    require(act.peers != 0, "a link has a peer", fault.name);
    require(scenario::drawn_duration_ns(act, parsed.seed) ==
                scenario::drawn_duration_ns(act, parsed.seed),
            "a duration is repeatable", fault.name);
  }
}

void check_deciding(const Scenario& parsed) {
  scenario::Decider first(parsed, scenario::Context{});
  scenario::Decider second(parsed, scenario::Context{});
  abi::Call call;
  call.comm_label = "c0";
  call.comm_ranks = 2;
  call.has_count = true;
  call.datatype = 7;
  call.redop = 0;
  for (const abi::FunctionInfo& info : abi::all_functions()) {
    call.function = info.id;
    call.rank = call.world_rank = static_cast<int>(call.nth % 2);
    call.bytes = 4 * ++call.nth;
    call.count = call.nth;
    call.captured = call.nth % 3 == 0;
    // Switches turn, faults are armed and disarmed, and some are asked for.
    const scenario::Controls controls{.switches = call.nth * 0x9e37,
                                      .armed = ~(call.nth * 0x79b9),
                                      .generation = call.nth / 8,
                                      .fire = call.nth % 5 == 0 ? ~0ULL : 0};
    const scenario::Verdict verdict = first.enter(call, call.nth, controls);
    require(alike(verdict, second.enter(call, call.nth, controls)), "deciding is repeatable",
            std::string(info.name));
    first.settle(verdict, [](const scenario::Firing&) { return true; });
  }
  for (std::uint32_t i = 0; i < parsed.faults.size(); ++i)
    require(!scenario::explain_unfired(first.fault(i), first.tally(i)).empty(),
            "every outcome has an explanation", parsed.faults[i].name);
}

void check_message(const std::string& message, std::string_view source) {
  require(!message.empty(), "a refusal has a message", "");
  require(message.substr(0, source.size()) == source, "a refusal names its source", message);
  for (const char c : message)
    require(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "a message is printable", message);
}

}  // namespace

void check_properties(const Result<Scenario>& parsed, std::string_view source) {
  if (!parsed.ok()) return check_message(parsed.error().message(), source);
  check_round_trip(*parsed);
  check_acts(*parsed);
  check_deciding(*parsed);
}

}  // namespace sabot::fuzz
