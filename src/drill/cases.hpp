// The cases of a plan: those that it lists, and those that it generates from the baseline's calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "drill/generate/generate.hpp"

namespace sabot::drill {

struct CaseList {
  std::vector<PlannedCase> cases;  // of distinct names, in the order of the plan
  std::uint64_t left_out = 0;
};

// Pure. An error names the place in the plan.
Result<CaseList> cases_of(const Plan& plan, const std::vector<Calls>& calls);

// The scenario of a case as it goes to its run: with the expectation that it is judged by.
std::string scenario_text(const PlannedCase& planned);

}  // namespace sabot::drill
