// The environment of the command: ours plus what makes it part of the run. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/snapshot.hpp"

namespace sabot::launch {

struct ChildSettings {
  std::string preload;         // absolute path of the library that is put in front
  std::string tree;            // installation prefix: older entries of ours under it are taken out
  std::string python;          // folder of the Python package, "" = none
  std::string engine;          // "real" or "host"
  std::string run_folder;      // absolute
  std::string scenario;        // the copy in the run folder, "" = none
  std::string faults;          // one-line form, "" = none
  std::string launcher;        // HOST.PID of this process
  std::string working_folder;  // relative paths of knobs are meant from here
  std::vector<std::pair<std::string, std::string>> variables = {};  // replace those of these names
};

// LD_PRELOAD with library first and everything that was there behind it, except libraries of the
// same tree, which an outer run put there.
std::string preload_with(std::string_view library, std::string_view tree, std::string_view before);

// PYTHONPATH with the folder at its end: nothing that the command would find without us is hidden.
// The package in it gives torch.distributed its backend. A folder whose name PYTHONPATH cannot
// express is left out.
std::string python_path_with(std::string_view folder, std::string_view before);

// NAME=VALUE lines. Knobs that were set on the command line or validly in the environment are
// passed on; a variable of ours that could not be read is left out, so that it is not reported once
// more by each process. Everything foreign stays as it is.
std::vector<std::string> child_environment(const char* const* environment,
                                           const config::Snapshot& settings,
                                           const ChildSettings& child);

}  // namespace sabot::launch
