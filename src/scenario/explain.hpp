// Says why a fault did not fire. A test that never broke anything is no test, and "no" alone helps
// nobody.
#pragma once

#include <span>
#include <string>

#include "abi/function_id.hpp"
#include "scenario/scenario.hpp"
#include "scenario/tally.hpp"

namespace sabot::scenario {

// One line: fault "nic-dies" did not fire: closest: 12 calls matched everything but rank (wanted 7,
// seen 0 to 3). called: the functions that the job did call, if the caller knows; they are named
// where none of them was meant.
std::string explain_unfired(const Fault& fault, const FaultTally& tally,
                            std::span<const abi::FunctionId> called = {});

}  // namespace sabot::scenario
