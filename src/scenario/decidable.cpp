// `switch` and `armed` need somebody who can turn and arm; everything else is decided by the call.
#include "scenario/decidable.hpp"

namespace sabot::scenario {
namespace {

Error undecidable(const Fault& fault, const char* key, const char* why) {
  return Error(Code::kUnsupported,
               "fault \"" + fault.name + "\": key '" + key + "': " + why + "; leave it out");
}

}  // namespace

Status check_decidable(const Scenario& scenario, Controller controller) {
  if (controller == Controller::kRun) return {};
  for (const Fault& fault : scenario.faults) {
    if (!fault.when.switch_name.empty())
      return undecidable(fault, "when.switch",
                         "only `sabot ctl` turns switches, and this fault is not part of a run");
    if (!fault.is_armed)
      return undecidable(fault, "armed",
                         "only `sabot ctl` arms faults, and this fault is not part of a run");
  }
  return {};
}

}  // namespace sabot::scenario
