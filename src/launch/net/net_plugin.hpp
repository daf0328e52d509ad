// Which variables put Sabot's network plugin below the vendor's library, for link faults.
//
// All ranks get the same ones, faulted or not, because both ends of a connection have to be ours.
// NCCL would take the bytes of one machine over NVLink or shared memory, so those ways are closed.
// A plugin that the user relies on is never replaced: then the run is refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/snapshot.hpp"
#include "launch/installation.hpp"
#include "launch/nccl_search.hpp"
#include "scenario/scenario.hpp"

namespace sabot::launch {

struct NetEnvironment {
  std::vector<std::pair<std::string, std::string>> variables = {};  // empty: none are needed
  std::string text = {};  // what is said of it, "" = nothing
};

// kInvalidUsage: another network plugin, or another network, is asked for or would be found.
// kNotFound: ours is not installed.
Result<NetEnvironment> net_environment(const scenario::Scenario& scenario, bool is_real,
                                       const config::Snapshot& settings,
                                       const Installation& installation, Machine& machine);

}  // namespace sabot::launch
