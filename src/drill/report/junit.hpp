// The result of a drill as JUnit XML, for systems that run tests.
//
// The element and attribute names are those that the strictest reader knows (Jenkins' schema): one
// <testsuite>, its properties, and one <testcase> for each case. A case that is not as expected is
// a <failure>, one that could not be judged an <error>. Names are made distinct, since some
// readers keep only the first of a name; the body of a failure repeats the reasons, since some
// readers show no message; what happened to a rank and when stands at the top of <system-out>,
// since few readers keep properties of a case.
#pragma once

#include <string>

#include "drill/result.hpp"

namespace sabot::drill::report {

std::string junit_of(const DrillReport& report);

}  // namespace sabot::drill::report
