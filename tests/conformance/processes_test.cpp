// Ranks as processes: what launchers and forking programs do.
#include "processes.hpp"

namespace sabot::conformance {

const std::vector<NamedScenario>& scenarios() {
  static const std::vector<NamedScenario> kScenarios;
  return kScenarios;
}

}  // namespace sabot::conformance
