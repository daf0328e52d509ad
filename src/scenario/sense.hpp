// Which action makes sense on which function.
//
// One answer with two uses: the parser refuses a fault whose action makes sense on none of the
// functions that it names, with the reason; the decider passes over those functions of a group on
// which it makes none, so that `any` can be written for "wherever possible".
#pragma once

#include <string_view>

#include "abi/function_id.hpp"
#include "scenario/act.hpp"

namespace sabot::scenario {

// Why it makes none, as the end of a sentence that begins with the function ("has no reduction that
// could differ"); empty where it makes sense.
std::string_view objection_to(const Act& act, abi::FunctionId function);

inline bool makes_sense(const Act& act, abi::FunctionId function) {
  return objection_to(act, function).empty();
}

}  // namespace sabot::scenario
