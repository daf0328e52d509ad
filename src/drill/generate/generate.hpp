// Cases from the calls of a baseline: every call × actions × ranks × phases, sampled to a budget.
//
// Pure. Which combinations make sense is the scenario reader's to know: each is written as a line
// and read by it, and what it refuses for the function at hand is left out. The sample is drawn by
// the seed, action by action in turn, so that a small budget still meets every action; the same
// plan, seed and calls give the same cases in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "drill/generate/census.hpp"
#include "drill/plan/plan.hpp"
#include "scenario/scenario.hpp"

namespace sabot::drill {

// One scenario to be run.
struct PlannedCase {
  std::string name;  // unique in its drill
  scenario::Scenario scenario;
  scenario::Expectation expect;
  bool states_expectation = false;  // else any clean outcome will do
  std::uint64_t deadline_ns = 0;
};

struct Generated {
  std::vector<PlannedCase> cases;
  std::uint64_t left_out = 0;  // beyond the budget
};

// kInvalidArgument: the baseline makes no call that is asked for, or no action fits any of them.
// Names are unique within the result; where is the place of the table for messages.
Result<Generated> generate(const std::vector<Calls>& calls, const Generate& wanted,
                           std::uint64_t seed, const std::string& where);

}  // namespace sabot::drill
