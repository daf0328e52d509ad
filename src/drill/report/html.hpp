// The result of a drill as one page for people: nothing outside it is loaded, no script runs.
//
// The page is well-formed XML as well as HTML, follows the reader's choice of light or dark, and
// is laid out in percent, so that a phone of 360 pixels shows all of it. Its policy forbids
// everything but its own style, should a text ever get through the escaping.
#pragma once

#include <string>

#include "drill/result.hpp"

namespace sabot::drill::report {

std::string html_of(const DrillReport& report);

}  // namespace sabot::drill::report
