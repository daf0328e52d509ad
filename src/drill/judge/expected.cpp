// An expectation of a scenario in the words of results.
#include <iterator>

#include "drill/judge/evidence.hpp"

namespace sabot::drill {
namespace {

// In the order of scenario::Outcome.
constexpr Outcome kOutcomes[] = {Outcome::kCompletes, Outcome::kRecovers,  Outcome::kFailsCleanly,
                                 Outcome::kHangs,     Outcome::kDiesDirty, Outcome::kWrongResult};
static_assert(std::size(kOutcomes) == scenario::kOutcomeCount);

}  // namespace

Expected expected_of(const scenario::Expectation& expectation) {
  Expected expected;
  for (std::size_t i = 0; i < std::size(kOutcomes); ++i)
    if ((expectation.outcomes & scenario::bit_of(static_cast<scenario::Outcome>(i))) != 0)
      expected.outcomes.push_back(kOutcomes[i]);
  expected.detected_within_ns = expectation.detected_within_ns;
  expected.finished_within_ns = expectation.finished_within_ns;
  expected.fired = expectation.fired;
  expected.check = expectation.check;
  if (!expectation.attempts.empty()) expected.attempts = expectation.attempts;
  if (!expectation.steps_lost.empty()) expected.steps_lost = expectation.steps_lost;
  return expected;
}

}  // namespace sabot::drill
