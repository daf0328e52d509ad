// From a tree of values to a consistent Scenario, collecting every mistake on the way.
//
// builder.cpp has the scenario and its faults; trigger.cpp and action.cpp the two halves of a
// fault; expectation.cpp has [expect]. consistency.cpp refuses what each key of a fault allows
// alone but all together can never hold.
#pragma once

#include <optional>
#include <string_view>

#include "scenario/read/diagnostics.hpp"
#include "scenario/read/value.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario::read {

// What differs between the forms: how messages call the keys of the two tables of a fault
// ("when.rank" in a file, "rank" in a line), and how faults without a name are called, so that a
// file and a line can be put together.
struct Prefixes {
  std::string_view when;
  std::string_view action;
  std::string_view fault;
};

// Meaningful only if diagnostics is empty afterwards.
Scenario build_scenario(const Value& root, const Prefixes& prefixes, Diagnostics& diagnostics);

Trigger build_trigger(const Value& when, const Prefixes& prefixes, Diagnostics& diagnostics);
Action build_action(const Value& action, const Prefixes& prefixes, Diagnostics& diagnostics);

// A fault and the tables that it was built from, without an error.
struct BuiltFault {
  const Fault& fault;
  const Value& when;
  const Value& action;
};
// ranks: how many the job has, 0: unknown.
void check_consistency(const BuiltFault& built, std::uint64_t ranks, const Prefixes& prefixes,
                       Diagnostics& diagnostics);

// scenario: with its faults. Nothing, with a report, if the value is no table.
std::optional<Expectation> build_expectation(const Value& value, const Scenario& scenario,
                                             Diagnostics& diagnostics);

}  // namespace sabot::scenario::read
