// A result of a drill in literals: what the golden files of all outputs are made of.
//
// It has every outcome once, texts that try to break out of each format, and the extremes that a
// layout has to bear: a name without a blank that is wider than the table, marks on one spot,
// fifty ranks' worth of events.
#pragma once

#include "drill/result.hpp"

namespace sabot::drill::report {

DrillReport sample_report();
// A plan whose needs this machine does not meet.
DrillReport skipped_report();

}  // namespace sabot::drill::report
