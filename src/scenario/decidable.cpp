// `captured` needs the CUDA driver's answer, `switch` somebody who can turn it.
#include "scenario/decidable.hpp"

namespace sabot::scenario {
namespace {

Error undecidable(const Fault& fault, const char* key, const char* why) {
  return Error(Code::kUnsupported, "fault \"" + fault.name + "\": key 'when." + key +
                                       "' cannot be decided by this build: " + why);
}

}  // namespace

Status check_decidable(const Scenario& scenario) {
  for (const Fault& fault : scenario.faults) {
    if (fault.when.captured)
      return undecidable(fault, "captured",
                         "it does not ask the CUDA driver about streams; leave it out");
    if (!fault.when.switch_name.empty())
      return undecidable(fault, "switch",
                         "nothing can turn a switch while a job runs; leave it out");
  }
  return {};
}

}  // namespace sabot::scenario
