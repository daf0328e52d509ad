// From the evidence of a run to its verdict. Pure: the same evidence, the same case.
//
// What became of the job (outcome.cpp), who learned of the fault and when (detection.cpp), what
// happened in which order (events.cpp), and whether that is what was expected (requirements.cpp).
// No rank speaks for the others: a rank that learned nothing, or whose result differs, decides.
#pragma once

#include <string>
#include <vector>

#include "drill/judge/evidence.hpp"
#include "drill/result.hpp"

namespace sabot::drill {

Case judge(const Evidence& evidence);

}  // namespace sabot::drill
