// What `sabot run` does: check everything, choose engine and way, start the command, account for
// it.
//
// Nothing is started and nothing is written before scenario, command, engine and run folder are
// known to be fine; from the first line on stderr to the last the command runs as if it were alone:
// its streams, its signals and its exit status are its own.
#pragma once

#include <string>
#include <vector>

#include "config/snapshot.hpp"
#include "launch/child_process.hpp"
#include "launch/device_probe.hpp"
#include "launch/ending.hpp"
#include "launch/installation.hpp"

namespace sabot::launch {

struct RunOptions {
  std::vector<std::string> command;
  std::vector<config::Assignment> knobs;  // from the command line
  bool require_fired = false;
};

// What surrounds a run: given by the product, faked by tests.
struct Surroundings {
  Installation installation;
  std::string version;
  CountDevices count_devices = nullptr;
  const char* const* environment = nullptr;
};

// What became of a run, for verbs that look further (demo, drill).
struct RunReport {
  int status = 0;
  bool started = false;
  std::string run_folder;
  Ending ending;
  Evidence evidence;
};

// Prints to stderr as described in the documentation of the verb; the status is that of the
// process.
RunReport run(const RunOptions& options, const Surroundings& surroundings);

}  // namespace sabot::launch
