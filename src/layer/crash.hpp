// Ends the process, as a fault asks.
#pragma once

#include "scenario/act.hpp"

namespace sabot::layer {

// Precondition: act.kind is kCrash. Returns only where the signal stops the process and it is
// continued.
void crash(const scenario::Act& act);

}  // namespace sabot::layer
